// SPDX-License-Identifier: Apache-2.0
// node show_netron.mjs FOLDER-OF-NETRON FILE..: reads each .mindir as netron's page does, and prints its graphs, nodes and weights.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const folder = process.argv[2];
const load = (name) => import(pathToFileURL(join(folder, name)).href);
const protobuf = await load('protobuf.js');
const { ModelFactory } = await load('mindir.js');
const known = new Map(JSON.parse(readFileSync(join(folder, 'mindir-metadata.json'), 'utf-8')).map((type) => [type.name, type]));

for (const file of process.argv.slice(3)) {
  const bytes = new Uint8Array(readFileSync(file));
  let format = null;
  const context = {
    identifier: file,
    tags: async () => protobuf.BinaryReader.open(bytes).signature(),
    set: (name) => { format = name; return name; },
    require: (name) => load(`${name}.js`),
    read: async () => protobuf.BinaryReader.open(bytes),
    metadata: async () => ({ type: (name) => known.get(name) || { name } })
  };
  try {
    const factory = new ModelFactory();
    await factory.match(context);
    const model = await factory.open(context);
    const nodes = model.modules.flatMap((graph) => graph.nodes);
    const values = nodes.flatMap((node) => node.inputs.flatMap((input) => input.value || []));
    const weights = values.filter((value) => value && value.initializer).length;
    console.log(`${file}: ${format}, ${model.format}, ${model.modules.length} graphs, ${nodes.length} nodes, ${weights} weights`);
  } catch (error) {
    console.log(`${file}: error: ${error.stack}`);
  }
}
