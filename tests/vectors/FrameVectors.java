import com.amazonaws.services.schemaregistry.common.configs.GlueSchemaRegistryConfiguration;
import com.amazonaws.services.schemaregistry.serializers.SerializationDataEncoder;
import io.apicurio.registry.resolver.strategy.ArtifactReference;
import io.apicurio.registry.serde.DefaultIdHandler;
import io.apicurio.registry.serde.IdHandler;
import io.apicurio.registry.serde.Legacy4ByteIdHandler;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.UUID;

/** Prints the frames of AWS Glue's and Apicurio's serializers around JSON: see README.md. */
public class FrameVectors {
    static final byte[] JSON = "{\"id\":4711}".getBytes(StandardCharsets.UTF_8);

    static void print(String tool, byte[] record) {
        String hex = HexFormat.of().formatHex(record);
        System.out.printf("{\"tool\": \"%s\", \"record\": \"%s\"}%n", tool, hex);
    }

    static byte[] ofApicurio(IdHandler handler) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(0);
        handler.writeId(ArtifactReference.builder().globalId(7L).contentId(7L).build(), out);
        out.write(JSON);
        return out.toByteArray();
    }

    public static void main(String[] arguments) throws Exception {
        UUID id = UUID.fromString("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63");
        for (String compression : new String[] {"NONE", "ZLIB"}) {
            var settings = Map.of("region", "eu-central-1", "compression", compression);
            var encoder = new SerializationDataEncoder(
                new GlueSchemaRegistryConfiguration(settings));
            print("AWS Glue, " + compression, encoder.write(JSON, id));
        }
        print("Apicurio DefaultIdHandler", ofApicurio(new DefaultIdHandler()));
        print("Apicurio Legacy4ByteIdHandler", ofApicurio(new Legacy4ByteIdHandler()));
    }
}
