// Writes the records of standard input with the defaults of kafka-go (README.md).
package main

import (
	"context"
	"os"

	"github.com/segmentio/kafka-go"
	"producers/records"
)

func main() {
	writer := &kafka.Writer{Addr: kafka.TCP(os.Args[1])}
	switch records.Partitioner() {
	case "hash":
		writer.Balancer = &kafka.Hash{}
	case "murmur2":
		writer.Balancer = &kafka.Murmur2Balancer{}
	}
	var messages []kafka.Message
	for _, record := range records.Read() {
		messages = append(messages, kafka.Message{Topic: record.Topic, Key: record.Key, Value: record.Value})
	}
	records.Must(writer.WriteMessages(context.Background(), messages...))
	records.Must(writer.Close())
	records.PrintVersion("github.com/segmentio/kafka-go")
}
