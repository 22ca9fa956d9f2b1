import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Writes the records of standard input with the defaults of Kafka's Java client (README.md). */
public class JavaProducer {
    private static byte[] key(String topic, String kind, String written) {
        return switch (kind) {
            case "null" -> null;
            case "bytes" -> HexFormat.of().parseHex(written);
            case "text" -> {
                byte[] utf8 = HexFormat.of().parseHex(written);
                yield new StringSerializer().serialize(topic, new String(utf8, StandardCharsets.UTF_8));
            }
            case "int32" -> new IntegerSerializer().serialize(topic, Integer.valueOf(written));
            case "int64" -> new LongSerializer().serialize(topic, Long.valueOf(written));
            default -> throw new IllegalArgumentException(kind);
        };
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        List<Future<?>> sent = new ArrayList<>();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        try (var producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line; (line = input.readLine()) != null;) {
                String[] fields = line.split("\t", -1);
                byte[] key = key(fields[0], fields[1], fields[2]);
                byte[] value = fields[3].getBytes(StandardCharsets.US_ASCII);
                sent.add(producer.send(new ProducerRecord<>(fields[0], key, value)));
            }
            for (Future<?> record : sent) {
                record.get();
            }
        }
        System.out.println(AppInfoParser.getVersion());
    }
}
