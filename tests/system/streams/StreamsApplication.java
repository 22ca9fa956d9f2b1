import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * A typical Kafka Streams application with a store of every kind. It reads requests from stdin, one
 * JSON document per line, and writes one line per answer to stdout.
 *
 * <p>Arguments: bootstrap servers, state folder, and the application id, "shop" or "odd", which
 * also selects the topology.
 *
 * <p>{"do": "start", "guarantee": …} starts it; {"do": "consume"} answers when all input is
 * processed and committed; {"do": "stop"} ends it; {"ask": …, "store": …, "key": …} are
 * interactive queries.
 */
public class StreamsApplication {
    /** Shorter than the time-out of the test, so that it shows the error. */
    private static final long TIMEOUT_S = 180;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Map<String, List<String>> INPUTS = Map.of(
        "shop", List.of("orders", "visits", "payments-in", "prices-in"),
        "odd", List.of("events", "clicks", "people", "towns"));

    private static String servers;
    private static String name;
    private static String stateFolder;
    private static Topology topology;
    private static KafkaStreams streams;

    static Topology shop() {
        StreamsBuilder builder = new StreamsBuilder();

        builder.table("orders", Consumed.with(TEXT, TEXT), Materialized.as("status"));

        KGroupedStream<String, String> visits =
            builder.stream("visits", Consumed.with(TEXT, TEXT)).groupByKey();
        visits.count(Materialized.as("visits-total"));
        visits
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(10), Duration.ofMinutes(110)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("visits-tumbling")
                .withRetention(Duration.ofHours(2)));
        visits
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(30), Duration.ofMinutes(60))
                .advanceBy(Duration.ofMinutes(10)))
            .aggregate(() -> "", (key, value, all) -> all + value,
                Materialized.<String, String, WindowStore<Bytes, byte[]>>as("visits-hopping")
                    .withValueSerde(TEXT).withRetention(Duration.ofHours(3)));
        visits
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(
                Duration.ofMinutes(5), Duration.ofMinutes(115)))
            .aggregate(() -> "", (key, value, all) -> all + value, (key, one, two) -> one + two,
                Materialized.<String, String, SessionStore<Bytes, byte[]>>as("visits-sessions")
                    .withValueSerde(TEXT).withRetention(Duration.ofHours(2)));

        builder.addStateStore(Stores.windowStoreBuilder(
            Stores.persistentWindowStore(
                "payments", Duration.ofHours(2), Duration.ofMinutes(1), true),
            TEXT, TEXT));
        builder.stream("payments-in", Consumed.with(TEXT, TEXT)).process(Keep::new, "payments");

        builder.table("prices-in", Consumed.with(TEXT, TEXT), Materialized.as(
            Stores.persistentVersionedKeyValueStore("prices", Duration.ofHours(2))));

        return builder.build();
    }

    /** Unusual stores: some can be served without changes, others cannot. */
    static Topology odd() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> events = builder.stream("events", Consumed.with(TEXT, TEXT));
        KStream<String, String> clicks = builder.stream("clicks", Consumed.with(TEXT, TEXT));
        KGroupedStream<String, String> byKey = events.groupByKey();

        // keyed by the value, without a repartition: each task has its own count
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("per-task"), TEXT, Serdes.Long()));
        events.process(CountByValue::new, "per-task");

        byKey
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(
                Duration.ofMinutes(3), Duration.ofMinutes(30)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("sliding")
                .withRetention(Duration.ofHours(2)));
        byKey
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(10), Duration.ofMinutes(5)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("on-close")
                .withRetention(Duration.ofHours(2)));
        // the changelog's retention.ms depends on size and grace, not on the supplier's retention
        byKey
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(10), Duration.ofMinutes(5)))
            .count(Materialized.as(Stores.inMemoryWindowStore(
                "supplied", Duration.ofHours(6), Duration.ofMinutes(10), false)));
        byKey.aggregate(() -> 0f, (key, value, sum) -> sum + 0.5f,
            Materialized.<String, Float, KeyValueStore<Bytes, byte[]>>as("rates")
                .withValueSerde(Serdes.Float()));

        builder.globalTable("countries", Consumed.with(TEXT, TEXT), Materialized.as("countries"));
        KTable<String, String> towns = builder.table("towns", Consumed.with(TEXT, TEXT));
        builder.table("people", Consumed.with(TEXT, TEXT))
            .join(towns, town -> town, (town, says) -> town + ": " + says,
                TableJoined.as("lives"),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("lives-in")
                    .withKeySerde(TEXT).withValueSerde(TEXT));

        JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(
            Duration.ofMinutes(1), Duration.ofMinutes(1));
        events.leftJoin(clicks, (event, click) -> event + click, near,
            StreamJoined.with(TEXT, TEXT, TEXT).withName("left").withStoreName("seen"));
        events.outerJoin(clicks, (event, click) -> event + click, near,
            StreamJoined.with(TEXT, TEXT, TEXT).withName("outer").withStoreName("met"));

        return builder.build();
    }

    /** Counts the records of its own task by value. */
    private static final class CountByValue implements Processor<String, String, Void, Void> {
        private KeyValueStore<String, Long> store;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore("per-task");
        }

        @Override
        public void process(Record<String, String> record) {
            Long before = store.get(record.value());
            store.put(record.value(), before == null ? 1L : before + 1);
        }
    }

    /** Stores every record by its time. */
    private static final class Keep implements Processor<String, String, Void, Void> {
        private WindowStore<String, String> store;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore("payments");
        }

        @Override
        public void process(Record<String, String> record) {
            store.put(record.key(), record.value(), record.timestamp());
        }
    }

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        stateFolder = arguments[1];
        name = arguments[2];
        topology = name.equals("odd") ? odd() : shop();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            answers.println(
                JSON.writeValueAsString(asked.has("do") ? carryOut(asked) : answer(asked)));
        }
        if (streams != null) {
            streams.close(Duration.ofSeconds(20));
        }
    }

    private static JsonNode carryOut(JsonNode asked) throws Exception {
        switch (asked.get("do").asText()) {
            case "start" -> start(asked.get("guarantee").asText());
            case "consume" -> consume();
            case "stop" -> streams.close(Duration.ofSeconds(20));
            default -> throw new IllegalArgumentException(asked.toString());
        }
        return JSON.createObjectNode().put("done", true);
    }

    private static void start(String guarantee) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stateFolder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, TEXT.getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, TEXT.getClass());
        // a restarted member does not wait for the session timeout of the old one
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), "one");
        // without a cache, it answers only values that it has written
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        CountDownLatch running = new CountDownLatch(1);
        streams = new KafkaStreams(topology, settings);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.start();
        if (!running.await(TIMEOUT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("after " + TIMEOUT_S + " s it is " + streams.state());
        }
    }

    /** Waits until the committed offsets are the ends of the input topics. */
    private static void consume() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
            while (true) {
                Map<TopicPartition, Long> committed = admin.listConsumerGroupOffsets(name)
                    .partitionsToOffsetAndMetadata().get().entrySet().stream()
                    .filter(entry -> entry.getValue() != null && entry.getValue().offset() > 0)
                    .collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().offset()));
                Map<TopicPartition, Long> ends = ends(admin);
                if (committed.equals(ends)) {
                    return;
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(committed + " is not " + ends);
                }
                Thread.sleep(50);
            }
        }
    }

    private static Map<TopicPartition, Long> ends(Admin admin) throws Exception {
        List<String> topics = admin.listTopics().names().get().stream()
            .filter(StreamsApplication::isRead).toList();
        Map<TopicPartition, OffsetSpec> wanted = admin.describeTopics(topics)
            .allTopicNames().get().values().stream()
            .flatMap(topic -> topic.partitions().stream()
                .map(partition -> new TopicPartition(topic.name(), partition.partition())))
            .collect(Collectors.toMap(partition -> partition, partition -> OffsetSpec.latest()));
        return admin.listOffsets(wanted).all().get().entrySet().stream()
            .filter(entry -> entry.getValue().offset() > 0)
            .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().offset()));
    }

    /** Whether the application reads the topic: its inputs, and internal topics of joins. */
    private static boolean isRead(String topic) {
        boolean ofJoins = topic.startsWith(name + "-") && topic.endsWith("-topic");
        return ofJoins || INPUTS.get(name).contains(topic);
    }

    private static JsonNode answer(JsonNode asked) {
        String store = asked.get("store").asText();
        String key = asked.path("key").asText();
        ArrayNode items = JSON.createArrayNode();
        switch (asked.get("ask").asText()) {
            case "value" -> {
                return value(open(store, QueryableStoreTypes.keyValueStore()).get(key));
            }
            case "all-values" -> {
                try (KeyValueIterator<String, Object> all =
                        open(store, QueryableStoreTypes.<String, Object>keyValueStore()).all()) {
                    all.forEachRemaining(
                        entry -> items.addArray().add(entry.key).add(value(entry.value)));
                }
            }
            case "windows" -> {
                try (WindowStoreIterator<Object> windows =
                        open(store, QueryableStoreTypes.<String, Object>windowStore())
                            .fetch(key, time(asked, "from"), time(asked, "to"))) {
                    windows.forEachRemaining(
                        window -> items.addArray().add(window.key).add(value(window.value)));
                }
            }
            case "all-windows" -> {
                try (KeyValueIterator<Windowed<String>, Object> windows =
                        open(store, QueryableStoreTypes.<String, Object>windowStore())
                            .fetchAll(time(asked, "from"), time(asked, "to"))) {
                    windows.forEachRemaining(window -> items.addArray()
                        .add(window.key.key()).add(window.key.window().start())
                        .add(value(window.value)));
                }
            }
            case "sessions" -> {
                // only the application's own processors can query ranges of time (findSessions)
                long from = asked.path("from").asLong(Long.MIN_VALUE);
                long to = asked.path("to").asLong(Long.MAX_VALUE);
                try (KeyValueIterator<Windowed<String>, Object> sessions =
                        open(store, QueryableStoreTypes.<String, Object>sessionStore())
                            .fetch(key)) {
                    sessions.forEachRemaining(session -> {
                        var window = session.key.window();
                        if (window.end() >= from && window.start() <= to) {
                            items.addArray().add(window.start()).add(window.end())
                                .add(value(session.value));
                        }
                    });
                }
            }
            case "all-sessions" -> {
                try (KeyValueIterator<Windowed<String>, Object> sessions =
                        open(store, QueryableStoreTypes.<String, Object>sessionStore())
                            .fetch(null, null)) {
                    sessions.forEachRemaining(session -> items.addArray()
                        .add(session.key.key()).add(session.key.window().start())
                        .add(session.key.window().end()).add(value(session.value)));
                }
            }
            case "version" -> {
                VersionedKeyQuery<String, Object> query = VersionedKeyQuery.withKey(key);
                if (asked.has("as_of")) {
                    query = query.asOf(time(asked, "as_of"));
                }
                for (VersionedRecord<Object> found : ask(store, query)) {
                    items.add(version(found));
                }
            }
            case "versions" -> {
                MultiVersionedKeyQuery<String, Object> query =
                    MultiVersionedKeyQuery.<String, Object>withKey(key)
                        .fromTime(time(asked, "from")).toTime(time(asked, "to"))
                        .withAscendingTimestamps();
                for (VersionedRecordIterator<Object> versions : ask(store, query)) {
                    try (versions) {
                        versions.forEachRemaining(found -> items.add(version(found)));
                    }
                }
            }
            default -> throw new IllegalArgumentException(asked.toString());
        }
        return items;
    }

    private static <T> T open(String store, QueryableStoreType<T> type) {
        return streams.store(StoreQueryParameters.fromNameAndType(store, type));
    }

    /** The results of the partitions of a store, without empty ones. */
    private static <T> Iterable<T> ask(String store, Query<T> query) {
        return streams.query(StateQueryRequest.inStore(store).withQuery(query))
            .getPartitionResults().values().stream()
            .map(QueryResult::getResult).filter(result -> result != null).toList();
    }

    private static Instant time(JsonNode asked, String field) {
        return Instant.ofEpochMilli(asked.get(field).asLong());
    }

    private static ArrayNode version(VersionedRecord<Object> found) {
        return JSON.createArrayNode().add(found.timestamp())
            .add(found.validTo().map(JSON.getNodeFactory()::numberNode).orElse(null))
            .add(value(found.value()));
    }

    private static JsonNode value(Object value) {
        return JSON.valueToTree(
            value instanceof org.apache.kafka.streams.state.ValueAndTimestamp<?> both
                ? both.value() : value);
    }
}
