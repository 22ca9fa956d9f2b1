import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/** Adds to each case of json_cases.py whether Jackson, as it is configured by default, parses it. */
public class JsonTexts {
    private static final ObjectMapper JSON =
        new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private static boolean parses(byte[] text) {
        try {
            String decoded =
                StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(text)).toString();
            JsonNode found = JSON.readTree(decoded);
            return !found.isMissingNode();
        } catch (IOException error) {
            return false;
        }
    }

    public static void main(String[] args) throws IOException {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode found = (ObjectNode) JSON.readTree(line);
            byte[] text = HexFormat.of().parseHex(found.get("text").asText());
            System.out.println(JSON.writeValueAsString(found.put("jackson", parses(text))));
        }
    }
}
