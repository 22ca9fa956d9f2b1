// Reads a key, all pages and a batch with the client that oapi-codegen has generated.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"example.com/readkeys/oapi_codegen/generated"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	client, err := generated.NewClientWithResponses(os.Args[1])
	check(err)
	ctx := context.Background()
	point, err := client.PointWithResponse(ctx, "orders", "a/b ü", &generated.PointParams{})
	check(err)
	if point.JSON200 == nil {
		panic(fmt.Sprint(point.Status(), string(point.Body)))
	}
	var page, batch []any
	var sizes []int
	limit, timestamps := 2, generated.KeysParamsTimestampsTrue
	params := &generated.KeysParams{Limit: &limit, Timestamps: &timestamps}
	for {
		keys, err := client.KeysWithResponse(ctx, "orders", params)
		check(err)
		for _, item := range keys.JSON200.Items {
			page = append(page, []any{item.Key, item.Value, item.Timestamp})
		}
		sizes = append(sizes, len(keys.JSON200.Items))
		if keys.JSON200.Next == nil {
			break
		}
		params.Cursor = keys.JSON200.Next
	}
	asked := generated.BatchJSONRequestBody{Keys: []any{"k1", "missing"}}
	items, err := client.BatchWithResponse(ctx, "orders", &generated.BatchParams{}, asked)
	check(err)
	for _, item := range items.JSON200.Items {
		batch = append(batch, []any{item.Key, item.Status, item.Value})
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"point": []any{point.JSON200.Key, point.JSON200.Value}, "page": page, "sizes": sizes, "batch": batch,
	}))
}
