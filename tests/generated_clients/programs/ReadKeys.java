import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.KeysApi;
import org.openapitools.client.api.ViewsApi;
import org.openapitools.client.model.BatchRequest;

/** Reads a key, all pages and a batch with the client that openapi-generator has generated. */
class ReadKeys {
    public static void main(String[] arguments) throws Exception {
        var client = new ApiClient();
        client.updateBaseUri(arguments[0]);
        var views = new ViewsApi(client);
        var point = new KeysApi(client)
            .point("orders", "a/b ü", null, null, null, null, null, null, null, null, null);
        var page = new ArrayList<Object>();
        var sizes = new ArrayList<Integer>();
        String cursor = null;
        do {
            var keys = views.keys("orders", null, null, null, null, 2, cursor, null, null, "true");
            for (var item : keys.getItems()) {
                page.add(List.of(item.getKey(), item.getValue(), item.getTimestamp()));
            }
            sizes.add(keys.getItems().size());
            cursor = keys.getNext();
        } while (cursor != null);
        var batch = new ArrayList<Object>();
        var request = new BatchRequest().keys(List.of("k1", "missing"));
        for (var item : views.batch("orders", request, null, null).getItems()) {
            var entry = new ArrayList<Object>();
            entry.add(item.getKey());
            entry.add(item.getStatus().getValue());
            entry.add(item.getValue());
            batch.add(entry);
        }
        var read = new LinkedHashMap<String, Object>();
        read.put("point", List.of(point.getKey(), point.getValue()));
        read.put("page", page);
        read.put("sizes", sizes);
        read.put("batch", batch);
        System.out.println(new ObjectMapper().writeValueAsString(read));
    }
}
