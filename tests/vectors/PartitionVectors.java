import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.StringJoiner;
import java.util.UUID;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;

/**
 * Prints the partition of a few thousand keys as Kafka's Java client computes it (format: README.md
 * in this folder). Every number is the client's own: toPositive(murmur2(key)) % partitions. The
 * keys come from a fixed seed, so that a second run prints the same file.
 */
public class PartitionVectors {
    /** The last one is no real count: it shows all 31 bits of the hash but one value. */
    private static final int[] PARTITIONS = {1, 3, 9, 50, Integer.MAX_VALUE};

    private static final HexFormat HEX = HexFormat.of();
    private static final Random RANDOM = new Random(20260101L);

    /** Key as written in the file, and its bytes; in order, each key once. */
    private static final Map<String, byte[]> KEYS = new LinkedHashMap<>();

    private static void add(byte[] key) {
        KEYS.putIfAbsent('"' + HEX.formatHex(key) + '"', key);
    }

    private static void add(String key) {
        add(key.getBytes(StandardCharsets.UTF_8));
    }

    private static void repeat(String hex, int times) {
        byte[] unit = HEX.parseHex(hex);
        ByteBuffer key = ByteBuffer.allocate(unit.length * times);
        for (int i = 0; i < times; i++) {
            key.put(unit);
        }
        KEYS.put("{\"repeat\": \"" + hex + "\", \"times\": " + times + "}", key.array());
    }

    private static byte[] filled(int length, int value) {
        byte[] key = new byte[length];
        java.util.Arrays.fill(key, (byte) value);
        return key;
    }

    private static byte[] random(int length) {
        byte[] key = new byte[length];
        RANDOM.nextBytes(key);
        return key;
    }

    private static String text(int[][] ranges, int length) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++) {
            int[] range = ranges[RANDOM.nextInt(ranges.length)];
            text.appendCodePoint(range[0] + RANDOM.nextInt(range[1] - range[0] + 1));
        }
        return text.toString();
    }

    private static void edges() {
        add(new byte[0]);
        // murmur2 of 0x80000000, 0xffffffff, 0x7fffffff and 0: where a sign mistake shows
        for (String hex : List.of("a7d6506c", "a5d4305c", "027d5343", "e3871844")) {
            add(HEX.parseHex(hex));
        }
        // FNV-1a of 0x80000000 (which has no absolute value as an int32), 0, 0xffffffff and 1
        for (String key : List.of("afjtjzd", "akhnp9x", "kdmw2hi", "df4a01h")) {
            add(key);
        }
        for (int value = 0; value < 256; value++) {
            add(new byte[] {(byte) value});
        }
        for (int value : new int[] {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff}) {
            for (int length = 2; length <= 18; length++) {
                add(filled(length, value));
            }
        }
        // a high byte at each place of a key, for sign extension in the tail and in the blocks
        for (int length = 2; length <= 9; length++) {
            for (int place = 0; place < length; place++) {
                byte[] key = filled(length, 0x00);
                key[place] = (byte) 0xff;
                add(key);
            }
        }
    }

    private static void texts() {
        for (String key : List.of("/", "a/b", "a%2Fb", "%", "%25", "+", "a b", " ", ".", "..", "?",
                "#", "processors", "views", "keys", "windows", "Zürich", "naïve", "Ångström",
                "日本語", "Ελλάδα", "москва", "שלום", "😀", "e\u0301", "\u00e9", "\ufeff", "\u0000")) {
            add(key);
        }
        int[][] ascii = {{0x21, 0x7e}};
        int[][] everywhere = {{0x20, 0x7e}, {0xa0, 0x24f}, {0x370, 0x3ff}, {0x400, 0x4ff},
            {0x5d0, 0x5ea}, {0x3041, 0x3096}, {0x4e00, 0x9fff}, {0x1f300, 0x1f64f}};
        for (int i = 0; i < 200; i++) {
            add(String.format("N%d%s", 100 + RANDOM.nextInt(900), text(new int[][] {{'A', 'Z'}}, 2)));
            add(text(ascii, 1 + RANDOM.nextInt(24)));
            add(text(everywhere, 1 + RANDOM.nextInt(12)));
        }
    }

    private static void numbers() {
        for (int value : new int[] {0, 1, -1, 42, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
            add(ByteBuffer.allocate(4).putInt(value).array());
            add(ByteBuffer.allocate(8).putLong(value).array());
        }
        for (long value : new long[] {1L << 53, -(1L << 53), Long.MIN_VALUE, Long.MAX_VALUE}) {
            add(ByteBuffer.allocate(8).putLong(value).array());
        }
        for (int i = 0; i < 60; i++) {
            add(ByteBuffer.allocate(4).putInt(RANDOM.nextInt()).array());
            add(ByteBuffer.allocate(8).putLong(RANDOM.nextLong()).array());
            add(new UUID(RANDOM.nextLong(), RANDOM.nextLong()).toString());
        }
    }

    private static void lengths() {
        for (int length = 2; length <= 9; length++) {
            for (int i = 0; i < 100; i++) {
                add(random(length));
            }
        }
        for (int length = 10; length <= 80; length++) {
            add(random(length));
            add(random(length));
        }
        for (int length : new int[] {127, 128, 129, 255, 256, 257, 1023, 1024, 1025}) {
            add(random(length));
        }
        for (int times : new int[] {65535, 65536, 65537}) {
            for (String unit : List.of("00", "61", "ff")) {
                repeat(unit, times);
            }
        }
        repeat("6162", 32768);
        repeat("f09f9880", 16384);
        repeat("00ff7f80", 16384);
    }

    public static void main(String[] args) {
        edges();
        texts();
        numbers();
        lengths();
        List<String> lines = new ArrayList<>();
        StringJoiner counts = new StringJoiner(", ", "[", "]");
        for (int partitions : PARTITIONS) {
            counts.add(Integer.toString(partitions));
        }
        lines.add("{\"partitioner\": \"murmur2\", \"made_by\": \"kafka-clients "
            + AppInfoParser.getVersion() + "\", \"partitions\": " + counts + "}");
        KEYS.forEach((written, key) -> {
            StringJoiner numbers = new StringJoiner(", ", "[", "]");
            for (int partitions : PARTITIONS) {
                numbers.add(Integer.toString(Utils.toPositive(Utils.murmur2(key)) % partitions));
            }
            lines.add("[" + written + ", " + numbers + "]");
        });
        System.out.println(String.join("\n", lines));
    }
}
