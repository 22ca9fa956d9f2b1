// Reads a key, all pages and a batch with the client that openapi-generator has generated.
package main

import (
	"context"
	"encoding/json"
	"os"

	"example.com/readkeys/openapi_generator/generated"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	configuration := generated.NewConfiguration()
	configuration.Servers = generated.ServerConfigurations{{URL: os.Args[1]}}
	client := generated.NewAPIClient(configuration)
	ctx := context.Background()
	point, _, err := client.KeysAPI.Point(ctx, "orders", "a/b ü").Execute()
	check(err)
	var page, batch []any
	var sizes []int
	request := client.ViewsAPI.Keys(ctx, "orders").Limit(2).Timestamps("true")
	for {
		keys, _, err := request.Execute()
		check(err)
		for _, item := range keys.Items {
			page = append(page, []any{item.Key, item.Value, item.GetTimestamp()})
		}
		sizes = append(sizes, len(keys.Items))
		cursor := keys.Next.Get()
		if cursor == nil {
			break
		}
		request = request.Cursor(*cursor)
	}
	asked := generated.BatchRequest{Keys: []any{"k1", "missing"}}
	items, _, err := client.ViewsAPI.Batch(ctx, "orders").BatchRequest(asked).Execute()
	check(err)
	for _, item := range items.Items {
		batch = append(batch, []any{item.Key, item.Status, item.Value})
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"point": []any{point.Key, point.Value}, "page": page, "sizes": sizes, "batch": batch,
	}))
}
