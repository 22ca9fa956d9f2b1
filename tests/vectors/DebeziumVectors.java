import io.debezium.data.Envelope;
import io.debezium.transforms.ExtractNewRecordState;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/** Prints what Debezium's envelopes and its ExtractNewRecordState are as JSON: see README.md. */
public class DebeziumVectors {
    static final String PLACEHOLDER = "__debezium_unavailable_value";
    static final Instant NOW = Instant.ofEpochMilli(1764410000123L);
    static final Schema ROW = SchemaBuilder.struct().name("shop.public.customers.Value").optional()
        .field("id", Schema.INT32_SCHEMA)
        .field("name", Schema.OPTIONAL_STRING_SCHEMA)
        .field("balance", Decimal.builder(2).optional().build())
        .field("big", Schema.OPTIONAL_INT64_SCHEMA)
        .field("day", io.debezium.time.Date.builder().optional().build())
        .field("notes", Schema.OPTIONAL_STRING_SCHEMA)
        .field("picture", Schema.OPTIONAL_BYTES_SCHEMA).build();
    static final Schema SOURCE = SchemaBuilder.struct()
        .name("io.debezium.connector.postgresql.Source")
        .field("connector", Schema.STRING_SCHEMA)
        .field("ts_ms", Schema.INT64_SCHEMA)
        .field("snapshot", Schema.OPTIONAL_STRING_SCHEMA)
        .field("table", Schema.STRING_SCHEMA).build();
    static final Schema KEY = SchemaBuilder.struct().name("shop.public.customers.Key")
        .field("id", Schema.INT32_SCHEMA).build();
    static final Envelope ENVELOPE = Envelope.defineSchema()
        .withName("shop.public.customers.Envelope").withRecord(ROW).withSource(SOURCE).build();
    static final Envelope OF_MONGODB = Envelope.defineSchema().withName("shop.customers.Envelope")
        .withRecord(io.debezium.data.Json.builder().optional().build()).withSource(SOURCE).build();

    static Struct source(String snapshot) {
        return new Struct(SOURCE).put("connector", "postgresql").put("ts_ms", 1764410000000L)
            .put("snapshot", snapshot).put("table", "customers");
    }

    static Struct row(String name, String balance, String notes, byte[] picture) {
        return new Struct(ROW).put("id", 1).put("name", name).put("balance", new BigDecimal(balance))
            .put("big", 9007199254740993L).put("day", 20420).put("notes", notes)
            .put("picture", picture);
    }

    static SourceRecord of(Schema schema, Object value) {
        return new SourceRecord(Map.of(), Map.of(), "customers", 0, KEY,
            new Struct(KEY).put("id", 1), schema, value);
    }

    static SourceRecord of(Struct envelope) {
        return of(envelope.schema(), envelope);
    }

    static String json(SourceRecord record, boolean schemas, String decimals) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", schemas, "decimal.format", decimals), false);
        byte[] value = converter.fromConnectData("customers", record.valueSchema(), record.value());
        if (value == null) {
            return "null";
        }
        String text = new String(value, StandardCharsets.UTF_8);
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    static void print(String name, SourceRecord record) {
        if (record != null) {
            System.out.printf("{\"name\":\"%s\",\"value\":%s,\"with_schema\":%s,\"numeric\":%s}%n",
                name, json(record, false, "BASE64"), json(record, true, "BASE64"),
                json(record, false, "NUMERIC"));
        }
    }

    static SourceRecord flattened(SourceRecord record, String handling) {
        ExtractNewRecordState<SourceRecord> transform = new ExtractNewRecordState<>();
        transform.configure(Map.of("delete.tombstone.handling.mode", handling));
        return transform.apply(record);
    }

    public static void main(String[] arguments) {
        byte[] bytes = PLACEHOLDER.getBytes(StandardCharsets.UTF_8);
        Struct anna = row("anna", "2.50", "x", new byte[] {1, 2});
        Struct bea = row("bea", "-12.05", "a \"quoted\" } brace", null);
        Map<String, SourceRecord> records = new LinkedHashMap<>();
        records.put("read", of(ENVELOPE.read(anna, source("true"), NOW)));
        records.put("create", of(ENVELOPE.create(anna, source("false"), NOW)));
        records.put("update", of(ENVELOPE.update(anna, bea, source("false"), NOW)));
        records.put("unavailable text",
            of(ENVELOPE.update(null, row("bea", "3.00", PLACEHOLDER, null), source("false"), NOW)));
        records.put("unavailable bytes",
            of(ENVELOPE.update(null, row("bea", "3.00", "x", bytes), source("false"), NOW)));
        records.put("delete", of(ENVELOPE.delete(bea, source("false"), NOW)));
        records.put("tombstone", of(null, null));
        records.put("truncate", of(ENVELOPE.truncate(source("false"), NOW)));
        records.forEach((name, record) -> {
            print(name, record);
            for (String handling : List.of("tombstone", "rewrite", "rewrite-with-tombstone")) {
                print(handling + ": " + name, flattened(record, handling));
            }
        });
        String document = "{\"_id\": {\"$oid\": \"656\"}, \"name\": \"anna\"}";
        print("mongodb: create", of(OF_MONGODB.create(document, source("false"), NOW)));
        print("mongodb: update", of(OF_MONGODB.update(null, null, source("false"), NOW)));
        print("mongodb: delete", of(OF_MONGODB.delete(null, source("false"), NOW)));
        Schema end = SchemaBuilder.struct()
            .name("io.debezium.connector.common.TransactionMetadataValue")
            .field("status", Schema.STRING_SCHEMA).field("id", Schema.STRING_SCHEMA)
            .field("event_count", Schema.OPTIONAL_INT64_SCHEMA)
            .field("data_collections", SchemaBuilder.array(Schema.STRING_SCHEMA).optional().build())
            .field("ts_ms", Schema.INT64_SCHEMA).build();
        print("transaction", of(end, new Struct(end).put("status", "END").put("id", "571:53195829")
            .put("event_count", 2L).put("data_collections", new ArrayList<>())
            .put("ts_ms", 1764410000123L)));
        Schema beat = SchemaBuilder.struct().name("io.debezium.connector.common.Heartbeat")
            .field("ts_ms", Schema.INT64_SCHEMA).build();
        print("heartbeat", of(beat, new Struct(beat).put("ts_ms", 1764410000123L)));
    }
}
