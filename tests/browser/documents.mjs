// What the tools of their standards say of an OpenAPI and an AsyncAPI document, and whether the examples fit the
// schemas: node documents.mjs FOLDER_OF_PACKAGES OPENAPI ASYNCAPI
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [folder, openapi, asyncapi] = process.argv.slice(2);
const require = createRequire(`${folder}/here.js`);
const SwaggerParser = require('@apidevtools/swagger-parser');
const { Parser } = require('@asyncapi/parser');
const { default: Ajv } = require('ajv/dist/2020.js');

let examples = 0;
// A reference leads to what it names in the document itself: schemas may lead back to themselves.
const check = (document, path, example) => {
  const ajv = new Ajv({ strict: false, validateFormats: false });
  ajv.addSchema(document, 'document');
  const pointer = path.map((name) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
  if (!ajv.compile({ $ref: `document#/${pointer}` })(example)) throw new Error(`${pointer}: ${ajv.errorsText()}`);
  examples++;
};

const api = JSON.parse(readFileSync(openapi, 'utf8'));
await SwaggerParser.validate(openapi);
for (const [name, { post }] of Object.entries(api.webhooks))
  for (const [type, { example }] of Object.entries(post.requestBody.content))
    if (example !== undefined) check(api, ['webhooks', name, 'post', 'requestBody', 'content', type, 'schema'], example);

const text = readFileSync(asyncapi, 'utf8');
const { messages } = JSON.parse(text).components;
const { document, diagnostics } = await new Parser().parse(text);
const faults = diagnostics.filter(({ code }) => code !== 'asyncapi-latest-version');
if (!document || faults.length > 0) throw new Error(JSON.stringify(faults));
for (const [name, message] of Object.entries(messages))
  for (const { payload } of message.examples ?? []) check(JSON.parse(text), ['components', 'messages', name, 'payload'], payload);

console.log(`${Object.keys(api.webhooks).length} webhooks, ${document.messages().all().length} messages, ${examples} examples`);
