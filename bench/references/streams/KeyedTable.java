import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.HostInfo;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;

/**
 * One instance of a Kafka Streams application that answers for the latest value of each key of a
 * topic: interactive queries, with the HTTP server and the HTTP client of the JDK. It looks up the
 * instance that has the key, and forwards the request if that is another one. The topic itself is
 * the changelog of the store.
 *
 * <p>Arguments: bootstrap servers, state folder, application id, port, topic. GET /{view}/{key}
 * answers 200 with JSON, 404, or 503; GET / answers the number of partitions of this
 * instance.
 */
public class KeyedTable {
    private static final String STORE = "table";
    private static final String FORWARDED = "X-Forwarded";
    private static final StringSerializer KEYS = new StringSerializer();

    private static final HttpClient CLIENT = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1)
        .connectTimeout(Duration.ofSeconds(1))
        .build();

    private static KafkaStreams streams;
    private static HostInfo self;

    public static void main(String[] arguments) throws Exception {
        self = new HostInfo("127.0.0.1", Integer.parseInt(arguments[3]));
        KeyValueBytesStoreSupplier store = Stores.persistentKeyValueStore(STORE);
        var builder = new StreamsBuilder();
        builder.table(
            arguments[4],
            Consumed.with(Serdes.String(), Serdes.ByteArray()),
            Materialized.<String, byte[]>as(store).withCachingDisabled());
        var settings = new Properties();
        settings.putAll(Map.of(
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            StreamsConfig.STATE_DIR_CONFIG, arguments[1],
            StreamsConfig.APPLICATION_ID_CONFIG, arguments[2],
            StreamsConfig.APPLICATION_SERVER_CONFIG, self.host() + ":" + self.port(),
            StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE,
            StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2,
            // otherwise an instance that is ahead keeps all partitions for ten minutes
            StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, Long.MAX_VALUE,
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"));
        streams = new KafkaStreams(builder.build(settings), settings);
        var close = new Thread(() -> streams.close(Duration.ofSeconds(5)));
        Runtime.getRuntime().addShutdownHook(close);
        streams.start();
        var server = HttpServer.create(new InetSocketAddress(self.host(), self.port()), 4096);
        // with a bounded pool, two instances can wait for one another with all their threads
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", KeyedTable::handle);
        server.start();
    }

    private record Answer(int status, byte[] body) {
        static Answer of(int status, String text) {
            return new Answer(status, text.getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void handle(HttpExchange exchange) throws IOException {
        Answer answer;
        try {
            answer = answer(exchange);
        } catch (InvalidStateStoreException | IOException unavailable) {
            answer = Answer.of(503, "\"" + unavailable.getClass().getSimpleName() + "\"");
        } catch (InterruptedException stopping) {
            Thread.currentThread().interrupt();
            answer = Answer.of(503, "\"stopping\"");
        }
        try (exchange) {
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(answer.status, answer.body.length);
            exchange.getResponseBody().write(answer.body);
        }
    }

    private static Answer answer(HttpExchange exchange) throws IOException, InterruptedException {
        String path = exchange.getRequestURI().getPath();
        if (path.equals("/")) {
            return Answer.of(200, Long.toString(streams.metadataForLocalThreads().stream()
                .mapToLong(thread -> thread.activeTasks().size()).sum()));
        }
        String key = path.substring(path.lastIndexOf('/') + 1);
        KeyQueryMetadata found = streams.queryMetadataForKey(STORE, key, KEYS);
        if (found == null || found.equals(KeyQueryMetadata.NOT_AVAILABLE)) {
            return Answer.of(503, "\"no metadata\"");
        }
        boolean isForwarded = exchange.getRequestHeaders().containsKey(FORWARDED);
        if (!found.activeHost().equals(self) && !isForwarded) {
            return forward(found.activeHost(), path);
        }
        byte[] value = streams.store(StoreQueryParameters
            .fromNameAndType(STORE, QueryableStoreTypes.<String, byte[]>keyValueStore())
            .withPartition(found.partition())).get(key);
        return value == null ? Answer.of(404, "null") : new Answer(200, document(key, value));
    }

    private static Answer forward(HostInfo owner, String path)
        throws IOException, InterruptedException {
        var uri = URI.create("http://" + owner.host() + ":" + owner.port() + path);
        var request = HttpRequest.newBuilder(uri)
            .timeout(Duration.ofSeconds(5)).header(FORWARDED, "1").build();
        var response = CLIENT.send(request, BodyHandlers.ofByteArray());
        return new Answer(response.statusCode(), response.body());
    }

    private static byte[] document(String key, byte[] value) throws IOException {
        var bytes = new ByteArrayOutputStream(value.length + key.length() + 24);
        bytes.write("{\"key\":\"".getBytes(StandardCharsets.UTF_8));
        bytes.write(key.getBytes(StandardCharsets.UTF_8));
        bytes.write("\",\"value\":".getBytes(StandardCharsets.UTF_8));
        bytes.write(value);
        bytes.write('}');
        return bytes.toByteArray();
    }
}
