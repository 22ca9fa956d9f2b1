// Reads a key, all pages and a batch with the client that openapi-generator has generated.
import { Configuration, KeysApi, ViewsApi } from "./generated";

declare const process: { argv: string[] };

async function main(): Promise<void> {
  const configuration = new Configuration({ basePath: process.argv[2] });
  const views = new ViewsApi(configuration);
  const point = await new KeysApi(configuration).point({ view: "orders", key: "a/b ü" });
  const page: unknown[] = [];
  const sizes: number[] = [];
  let cursor: string | undefined;
  do {
    const keys = await views.keys({ view: "orders", limit: 2, cursor, timestamps: "true" });
    page.push(...keys.items.map((item) => [item.key, item.value, item.timestamp]));
    sizes.push(keys.items.length);
    cursor = keys.next ?? undefined;
  } while (cursor !== undefined);
  const batchRequest = { keys: ["k1", "missing"] };
  const { items } = await views.batch({ view: "orders", batchRequest });
  const batch = items.map((item) => [item.key, item.status, item.value ?? null]);
  console.log(JSON.stringify({ point: [point.key, point.value], page, sizes, batch }));
}

main();
