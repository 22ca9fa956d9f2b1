// Writes the records of standard input with the defaults of KafkaJS (README.md).
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { Kafka, Partitioners, logLevel } = require('kafkajs');

const [servers, partitioner] = process.argv.slice(2);

function keyOf(kind, written) {
  switch (kind) {
    case 'null':
      return null;
    case 'bytes':
      return Buffer.from(written, 'hex');
    case 'text':
      return Buffer.from(written, 'hex').toString('utf8');
    case 'int32': {
      const key = Buffer.alloc(4);
      key.writeInt32BE(Number(written));
      return key;
    }
    case 'int64': {
      const key = Buffer.alloc(8);
      key.writeBigInt64BE(BigInt(written));
      return key;
    }
    default:
      throw new Error(kind);
  }
}

const batches = new Map();
for (const line of readFileSync(0, 'ascii').split('\n').filter((text) => text)) {
  const [topic, kind, key, value] = line.split('\t');
  if (!batches.has(topic)) batches.set(topic, []);
  batches.get(topic).push({ key: keyOf(kind, key), value });
}
const kafka = new Kafka({ brokers: [servers], logLevel: logLevel.ERROR });
const producer = kafka.producer(
  partitioner === 'legacy' ? { createPartitioner: Partitioners.LegacyPartitioner } : {},
);
await producer.connect();
for (const [topic, messages] of batches) {
  await producer.send({ topic, messages });
}
await producer.disconnect();
console.log(require('kafkajs/package.json').version);
