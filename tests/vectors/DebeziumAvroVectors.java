import io.apicurio.registry.utils.converter.AvroConverter;
import io.debezium.data.Envelope;
import io.debezium.transforms.ExtractNewRecordState;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/** Prints changes of two tables as Avro with schema ids, and as JSON: see README.md. */
public class DebeziumAvroVectors {
    static final String PLACEHOLDER = "__debezium_unavailable_value";
    static final Instant NOW = Instant.ofEpochMilli(1764410000123L);
    static final Schema SOURCE = SchemaBuilder.struct()
        .name("io.debezium.connector.postgresql.Source")
        .field("version", Schema.STRING_SCHEMA)
        .field("ts_ms", Schema.INT64_SCHEMA)
        .field("snapshot", io.debezium.data.Enum.builder("true,last,false").optional()
            .defaultValue("false").build())
        .field("table", Schema.STRING_SCHEMA)
        .field("lsn", Schema.OPTIONAL_INT64_SCHEMA).build();
    static final Schema CUSTOMER = SchemaBuilder.struct().name("shop.public.customers.Value").optional()
        .field("id", Schema.INT32_SCHEMA)
        .field("name", Schema.OPTIONAL_STRING_SCHEMA)
        .field("credit", Decimal.builder(2).parameter("connect.decimal.precision", "12").optional().build())
        .field("gift", Decimal.builder(2).optional().build())  // as of money: 64 digits in Avro
        .field("notes", Schema.OPTIONAL_STRING_SCHEMA)
        .field("tags", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA).optional().build())
        .field("picture", Schema.OPTIONAL_BYTES_SCHEMA).build();
    static final Schema ORDER = SchemaBuilder.struct().name("shop.public.orders.Value").optional()
        .field("number", Schema.INT64_SCHEMA)
        .field("line", Schema.STRING_SCHEMA)
        .field("customer", Schema.OPTIONAL_INT32_SCHEMA)
        .field("amount", Schema.FLOAT64_SCHEMA)
        .field("day", io.debezium.time.Date.builder().build())
        .field("changed", io.debezium.time.MicroTimestamp.builder().optional().build())
        .field("paid", Schema.BOOLEAN_SCHEMA).build();
    static final Schema CUSTOMER_KEY = SchemaBuilder.struct().name("shop.public.customers.Key")
        .field("id", Schema.INT32_SCHEMA).build();
    static final Schema ORDER_KEY = SchemaBuilder.struct().name("shop.public.orders.Key")
        .field("number", Schema.INT64_SCHEMA).field("line", Schema.STRING_SCHEMA).build();

    static AvroConverter<?> keys = new AvroConverter<>(), values = new AvroConverter<>();
    static JsonConverter jsonKeys = new JsonConverter(), jsonValues = new JsonConverter();

    static Envelope envelope(String table, Schema row) {
        return Envelope.defineSchema().withName("shop.public." + table + ".Envelope").withRecord(row)
            .withSource(SOURCE).build();
    }

    static Struct source(String table) {
        return new Struct(SOURCE).put("version", "3.4.3.Final").put("ts_ms", 1764410000000L)
            .put("table", table);
    }

    static Struct customer(int id, String name, String credit, String notes, byte[] picture) {
        return new Struct(CUSTOMER).put("id", id).put("name", name)
            .put("credit", credit == null ? null : new BigDecimal(credit))
            .put("gift", new BigDecimal("0.50"))
            .put("tags", java.util.Arrays.asList("a", null)).put("notes", notes).put("picture", picture);
    }

    static Struct order(long number, String line, Integer customer, double amount, Long changed) {
        return new Struct(ORDER).put("number", number).put("line", line).put("customer", customer)
            .put("amount", amount).put("day", 20420).put("changed", changed).put("paid", number % 2 == 0);
    }

    static Struct key(String table, Struct row) {
        if (table.equals("customers")) {
            return new Struct(CUSTOMER_KEY).put("id", row.get("id"));
        }
        return new Struct(ORDER_KEY).put("number", row.get("number")).put("line", row.get("line"));
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "null" : "\"" + HexFormat.of().formatHex(bytes) + "\"";
    }

    static String json(byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }

    static void print(String table, Struct row, Schema schema, Struct value) {
        Struct key = key(table, row);
        SourceRecord whole = new SourceRecord(Map.of(), Map.of(), table, 0, key.schema(), key, schema, value);
        print(table, whole);
        ExtractNewRecordState<SourceRecord> transform = new ExtractNewRecordState<>();
        transform.configure(Map.of("delete.tombstone.handling.mode", "rewrite"));
        SourceRecord flat = value == null ? null : transform.apply(whole);
        if (flat != null) {
            print(table + "_flat", flat);
        }
    }

    static void print(String topic, SourceRecord record) {
        String name = "shop." + topic;
        System.out.printf("{\"topic\":\"%s\",\"key\":%s,\"value\":%s,\"json_key\":%s,\"json_value\":%s}%n", topic,
            hex(keys.fromConnectData(name, record.keySchema(), record.key())),
            hex(values.fromConnectData(name, record.valueSchema(), record.value())),
            json(jsonKeys.fromConnectData(name, record.keySchema(), record.key())),
            json(jsonValues.fromConnectData(name, record.valueSchema(), record.value())));
    }

    public static void main(String[] arguments) {
        Map<String, Object> options = new HashMap<>(Map.of(
            "apicurio.registry.url", arguments[0] + "/apis/registry/v2",
            "apicurio.registry.auto-register", "true",
            "apicurio.registry.as-confluent", "true",
            "apicurio.registry.use-id", "contentId",
            "apicurio.registry.headers.enabled", "false"));
        keys.configure(options, true);
        values.configure(options, false);
        Map<String, Object> plain = Map.of("schemas.enable", false, "decimal.format", "NUMERIC");
        jsonKeys.configure(plain, true);
        jsonValues.configure(plain, false);
        byte[] bytes = PLACEHOLDER.getBytes(StandardCharsets.UTF_8);

        Envelope customers = envelope("customers", CUSTOMER), orders = envelope("orders", ORDER);
        Struct anna = customer(1, "anna", "2.50", "x", new byte[] {1, 2});
        Struct annie = customer(1, "annie \"É\"", "-12.05", null, null);
        Struct bea = customer(2, "bea", null, "y", null);
        Struct cleo = customer(300, "cleo", "9999999999.99", "z", null);
        Struct from = source("customers");
        print("customers", anna, customers.schema(), customers.read(anna, from, NOW));
        print("customers", bea, customers.schema(), customers.create(bea, from, NOW));
        print("customers", anna, customers.schema(), customers.update(anna, annie, from, NOW));
        print("customers", cleo, customers.schema(), customers.create(cleo, from, NOW));
        print("customers", cleo, customers.schema(), customers.update(null,
            customer(300, "cleo", "1.00", PLACEHOLDER, null), from, NOW));
        print("customers", cleo, customers.schema(), customers.update(null,
            customer(300, "cleo", "1.00", "x", bytes), from, NOW));
        print("customers", bea, customers.schema(), customers.delete(bea, from, NOW));
        print("customers", bea, null, null);

        from = source("orders");
        Struct first = order(1, "a", 1, 1.5, 1764410000123456L), second = order(1, "b,c", 2, 2.25, null);
        Struct third = order(2, "a", null, 0.5, 0L), last = order(2, "a", 300, 7.75, 1L);
        for (Struct row : new Struct[] {first, second, third, order(3, "a", 1, 4, null)}) {
            print("orders", row, orders.schema(), orders.create(row, from, NOW));
        }
        print("orders", third, orders.schema(), orders.update(third, last, from, NOW));
        print("orders", first, orders.schema(), orders.delete(first, from, NOW));
        print("orders", first, null, null);
        print("orders", second, orders.schema(), orders.truncate(from, NOW));
    }
}
