// onnxruntime-web in node: the same protocol as worker.py. Arguments: its folder, a file of pairs, a file of results.
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, pairs, results] = process.argv.slice(2);
const ort = await import(pathToFileURL(join(folder, "dist", "ort.wasm.bundle.min.mjs")).href);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

const tensor = ({ dtype, shape, data }) =>
  dtype === "int64"
    ? new ort.Tensor("int64", BigInt64Array.from(data, BigInt), shape)
    : new ort.Tensor("float32", Float32Array.from(data), shape);

async function attempt(path, values) {
  const { inputs, outputs } = JSON.parse(readFileSync(values, "utf8"));
  const session = await ort.InferenceSession.create(readFileSync(path));
  const feeds = Object.fromEntries(inputs.map((input, index) => [session.inputNames[index], tensor(input)]));
  const got = (await session.run(feeds))[session.outputNames[0]];
  const wanted = outputs[0];
  if (got.dims.join() !== wanted.shape.join()) return `the shape is [${got.dims}], not [${wanted.shape}]`;
  let furthest = 0, largest = 1;
  wanted.data.forEach((value, index) => {
    furthest = Math.max(furthest, Math.abs(value - got.data[index]));
    largest = Math.max(largest, Math.abs(value));
  });
  await session.release();
  return furthest <= 2e-3 * largest ? "" : `off by ${furthest}`;
}

for (const [path, values] of JSON.parse(readFileSync(pairs, "utf8"))) {
  appendFileSync(results, JSON.stringify({ begun: path }) + "\n");
  const error = await attempt(path, values).catch((error) => String(error).slice(0, 400));
  appendFileSync(results, JSON.stringify({ file: path, error }) + "\n");
}
