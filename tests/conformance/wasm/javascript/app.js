// A component in JavaScript: shows its target and the length of its body, or fails.

import { Fields, OutgoingBody, OutgoingResponse, ResponseOutparam } from 'wasi:http/types@0.2.12';

export const incomingHandler = {
  handle(request, out) {
    const target = request.pathWithQuery();
    if (target === '/throw') {
      throw new Error('told to fail');
    }
    const length = bodyOf(request);
    const response = new OutgoingResponse(Fields.fromList([['x-language', new TextEncoder().encode('JavaScript')]]));
    const body = response.body();
    ResponseOutparam.set(out, { tag: 'ok', val: response });
    const stream = body.write();
    stream.blockingWriteAndFlush(new TextEncoder().encode(`JavaScript: ${target}, ${length} bytes\n`));
    stream[Symbol.dispose]();
    OutgoingBody.finish(body, undefined);
  },
};

/** The bytes of a body, which is read to its end. */
function bodyOf(request) {
  const stream = request.consume().stream();
  let length = 0;
  for (;;) {
    try {
      length += stream.blockingRead(65536n).length;
    } catch (error) {
      if (error?.payload?.tag === 'closed') {
        return length;
      }
      throw error;
    }
  }
}
