import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Three views of the demo as a Kafka Streams application that answers queries over HTTP: word-count
 * (from texts), latest-departure and departures (from flights). Each has a changelog, and no cache,
 * so that each record is visible when it is processed.
 *
 * <p>Arguments: bootstrap servers, state folder, application id, port, and the views, separated by
 * commas. GET /{view}/{key} answers 200 with JSON, or 404; GET /state answers the state.
 */
public class DemoViews {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Pattern WORD = Pattern.compile("[a-z0-9_']+");
    private static final Duration RETENTION = Duration.ofDays(40_000);

    private static KafkaStreams streams;

    public static void main(String[] arguments) throws Exception {
        var views = Arrays.asList(arguments[4].split(","));
        var builder = new StreamsBuilder();
        if (views.contains("word-count")) {
            wordCount(builder);
        }
        if (views.contains("latest-departure") || views.contains("departures")) {
            KStream<String, Departure> departed = builder
                .stream("flights", Consumed.with(TEXT, TEXT))
                .mapValues(DemoViews::departure)
                .filter((key, departure) -> departure != null);
            if (views.contains("latest-departure")) {
                latestDeparture(departed);
            }
            if (views.contains("departures")) {
                departures(builder, departed);
            }
        }
        var settings = new Properties();
        settings.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.STATE_DIR_CONFIG, arguments[1],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[2],
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0,
            StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2,
            // as often as Spark's job: with every commit, progress is visible
            StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000,
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"));
        streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        serve(Integer.parseInt(arguments[3]));
    }

    private static void wordCount(StreamsBuilder builder) {
        builder.stream("texts", Consumed.with(TEXT, TEXT))
            .flatMapValues(text -> {
                Matcher found = WORD.matcher(text.toLowerCase(Locale.ROOT));
                return (Iterable<String>) () -> found.results().map(each -> each.group()).iterator();
            })
            .groupBy((key, word) -> word, Grouped.with(TEXT, TEXT))
            .count(Materialized.as("word-count"));
    }

    /** The topic's key is the aircraft, so nothing is repartitioned. */
    private static void latestDeparture(KStream<String, Departure> departed) {
        departed
            .mapValues(Departure::document)
            .groupByKey(Grouped.with(TEXT, TEXT))
            .reduce(
                (latest, next) -> timeOf(next).compareTo(timeOf(latest)) > 0 ? next : latest,
                Materialized.as("latest-departure"));
    }

    private static String timeOf(String document) {
        int at = document.indexOf("\"time\":\"") + 8;
        return document.substring(at, document.indexOf('"', at));
    }

    private static void departures(StreamsBuilder builder, KStream<String, Departure> departed) {
        builder.addStateStore(Stores.windowStoreBuilder(
            Stores.persistentWindowStore("departures", RETENTION, Duration.ofMillis(1), false),
            TEXT, TEXT));
        departed.process(Departures::new, "departures");
    }

    private record Departure(long at, String document) {}

    private static class Departures
        extends ContextualProcessor<String, Departure, Void, Void> {
        private WindowStore<String, String> store;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            super.init(context);
            store = context.getStateStore("departures");
        }

        @Override
        public void process(Record<String, Departure> record) {
            var departure = record.value();
            store.put(record.key(), departure.document(), departure.at());
        }
    }

    /** Null if the flight was cancelled, or the record is malformed. */
    private static Departure departure(String text) {
        JsonNode flight;
        try {
            flight = JSON.readTree(text);
        } catch (IOException malformed) {
            return null;
        }
        if (!flight.path("dep_time").isInt() || !flight.path("dep_delay").isInt()) {
            return null;
        }
        int delay = flight.get("dep_delay").intValue();
        long left = Instant.parse(flight.get("time_hour").textValue()).getEpochSecond()
            + 60L * flight.get("minute").intValue() + 60L * delay;
        ObjectNode document = JSON.createObjectNode()
            .put("flight", flight.get("carrier").textValue() + flight.get("flight").intValue())
            .put("origin", flight.get("origin").textValue())
            .put("dest", flight.get("dest").textValue())
            .put("time", Instant.ofEpochSecond(left).toString())
            .put("delay", delay);
        return new Departure(1000 * left, document.toString());
    }

    private static void serve(int port) throws IOException {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            String answer;
            int status = 200;
            try {
                answer = answer(exchange.getRequestURI().getPath().split("/"));
                if (answer == null) {
                    status = 404;
                    answer = "null";
                }
            } catch (RuntimeException error) {
                status = 503;
                answer = "\"" + error.getClass().getSimpleName() + "\"";
            }
            send(exchange, status, answer.getBytes(StandardCharsets.UTF_8));
        });
        server.start();
    }

    private static void send(HttpExchange exchange, int status, byte[] body) throws IOException {
        try (exchange) {
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    private static String answer(String[] path) {
        if (path[1].equals("state")) {
            return "\"" + streams.state() + "\"";
        }
        if (path[1].equals("departures")) {
            var store = streams.store(StoreQueryParameters.fromNameAndType(
                path[1], QueryableStoreTypes.<String, String>windowStore()));
            ArrayNode found = JSON.createArrayNode();
            try (WindowStoreIterator<String> entries =
                    store.fetch(path[2], Instant.EPOCH, Instant.now().plus(RETENTION))) {
                entries.forEachRemaining(entry -> found.add(entry.value));
            }
            return found.isEmpty() ? null : found.toString();
        }
        var value = streams.store(StoreQueryParameters.fromNameAndType(
            path[1], QueryableStoreTypes.keyValueStore())).get(path[2]);
        return value == null ? null : value.toString();
    }
}
