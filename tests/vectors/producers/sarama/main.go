// Writes the records of standard input with the defaults of Sarama (README.md).
package main

import (
	"os"

	"github.com/IBM/sarama"
	"producers/records"
)

func main() {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true // SyncProducer needs it
	if records.Partitioner() == "reference" {
		config.Producer.Partitioner = sarama.NewReferenceHashPartitioner
	}
	producer, err := sarama.NewSyncProducer(os.Args[1:2], config)
	records.Must(err)
	var messages []*sarama.ProducerMessage
	for _, record := range records.Read() {
		message := &sarama.ProducerMessage{Topic: record.Topic, Value: sarama.ByteEncoder(record.Value)}
		switch record.Kind {
		case "null":
		case "text":
			message.Key = sarama.StringEncoder(record.Key)
		default:
			message.Key = sarama.ByteEncoder(record.Key)
		}
		messages = append(messages, message)
	}
	records.Must(producer.SendMessages(messages))
	records.Must(producer.Close())
	records.PrintVersion("github.com/IBM/sarama")
}
