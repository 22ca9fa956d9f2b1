// Writes the records of standard input with the defaults of franz-go (README.md).
package main

import (
	"context"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"producers/records"
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	records.Must(err)
	defer client.Close()
	var all []*kgo.Record
	for _, record := range records.Read() {
		all = append(all, &kgo.Record{Topic: record.Topic, Key: record.Key, Value: record.Value})
	}
	records.Must(client.ProduceSync(context.Background(), all...).FirstErr())
	records.PrintVersion("github.com/twmb/franz-go")
}
