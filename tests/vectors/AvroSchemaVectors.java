import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.avro.LogicalType;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.DecoderFactory;

/**
 * Prints what Avro's Java library makes of each case of avro_cases.py, which it reads from standard
 * input: when it parses the schema, and the logical type and the value of the first field.
 */
public class AvroSchemaVectors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private static ObjectNode parsed(String text) {
        ObjectNode found = JSON.createObjectNode();
        try {
            new Schema.Parser().parse(text);
            return found.put("parses", "always");
        } catch (RuntimeException strict) {
            try {
                lenient(text);
                return found.put("parses", "without checks of names and defaults");
            } catch (RuntimeException error) {
                return found.put("parses", "never");
            }
        }
    }

    /** As for a schema that was registered earlier. */
    private static Schema lenient(String text) {
        return new Schema.Parser(NameValidator.NO_VALIDATION).setValidateDefaults(false).parse(text);
    }

    private static String written(Object value) {
        if (value instanceof ByteBuffer bytes) {
            return HEX.formatHex(bytes.array(), bytes.position(), bytes.limit());
        }
        return value instanceof GenericFixed fixed ? HEX.formatHex(fixed.bytes()) : String.valueOf(value);
    }

    private static Object read(Schema schema, String hex) throws IOException {
        byte[] raw = HEX.parseHex(hex);
        IndexedRecord record = new GenericDatumReader<IndexedRecord>(schema)
            .read(null, DecoderFactory.get().binaryDecoder(raw, null));
        return record.get(0);
    }

    public static void main(String[] args) throws IOException {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode written = (ObjectNode) JSON.readTree(line);
            String text = written.get("schema").asText();
            ObjectNode found = JSON.createObjectNode().put("case", written.get("case").asText());
            found.setAll(parsed(text));
            if (!found.get("parses").asText().equals("never")) {
                Schema schema = lenient(text);
                LogicalType logical = schema.getFields().get(0).schema().getLogicalType();
                found.put("logical", logical == null ? null : logical.getName());
                found.put("value", written(read(schema, written.get("record").asText())));
            }
            System.out.println(JSON.writeValueAsString(found));
        }
    }
}
