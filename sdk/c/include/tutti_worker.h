/* libtutti_worker: serve requests of Tutti from C. Generated from sdk/c/src; do not edit.
 *
 * Ownership, for every function: what a function returns as a pointer to a struct belongs to the caller until the function that
 * is named for giving it back; bytes that it points the caller to belong to the exchange and are valid until it has ended. NULL
 * is accepted wherever a pointer is expected and answered like a failure.
 *
 * Threads: a tutti_process is used by one thread at a time. A tutti_worker and its exchanges belong to the thread that took
 * it, and to no other.
 */

#ifndef TUTTI_WORKER_H
#define TUTTI_WORKER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// It worked.
#define TUTTI_OK 0

// The client has gone, or the request was given up: the response has no reader any more.
#define TUTTI_GONE -1

// Not now: attention tells when. Event loops only.
#define TUTTI_AGAIN -2

// An invalid argument (NULL, a status that does not exist, a field name that is no token), or a call in the wrong state (a second head).
#define TUTTI_INVALID -3

// The system refused: reading the body failed, or there is no such facility.
#define TUTTI_SYSTEM -4

// A fault of the library.
#define TUTTI_FAULT -5

// More fields than there is room for.
#define TUTTI_TOO_LARGE -6

// A text of a request.
typedef enum tutti_text {
  // `GET`.
  TUTTI_METHOD = 0,
  // As received: `/a%20b?c`.
  TUTTI_TARGET = 1,
  // Decoded and normalised: `/a b`.
  TUTTI_PATH = 2,
  // The part after the question mark.
  TUTTI_QUERY = 3,
  // `http` or `https`.
  TUTTI_SCHEME = 4,
  // The client's address, without port.
  TUTTI_REMOTE_ADDRESS = 5,
  // The address the request came in at, without port.
  TUTTI_LOCAL_ADDRESS = 6,
  // The host the client asked for, without port, in lower case.
  TUTTI_SERVER_NAME = 7,
  // The last part of `applications/NAME/TARGET`.
  TUTTI_TARGET_NAME = 8,
  // The user that `authenticate` has found.
  TUTTI_USER = 9,
} tutti_text;

// A number of a request.
typedef enum tutti_number {
  // 0 for HTTP/1.0, 1 for HTTP/1.1, 2 for HTTP/2, 3 for HTTP/3.
  TUTTI_VERSION_MINOR = 0,
  // 1 on an encrypted connection.
  TUTTI_TLS = 1,
  // The client's port; 0 on UNIX sockets.
  TUTTI_REMOTE_PORT = 2,
  // The port the request came in at; 0 on UNIX sockets.
  TUTTI_LOCAL_PORT = 3,
  // The body's length; -1 where it is not known.
  TUTTI_CONTENT_LENGTH = 4,
  // The number of fields.
  TUTTI_FIELDS = 5,
  // 1 if it opens a WebSocket.
  TUTTI_WEBSOCKET = 6,
} tutti_number;

// The kind of a message: the numbers of RFC 6455.
typedef enum tutti_opcode {
  // UTF-8, checked by the server.
  TUTTI_MESSAGE_TEXT = 1,
  // Bytes.
  TUTTI_MESSAGE_BINARY = 2,
  // Empty, or two bytes of code (big-endian) and a reason in UTF-8.
  TUTTI_MESSAGE_CLOSE = 8,
  // The server answers the client's itself.
  TUTTI_MESSAGE_PING = 9,
  // The answer to a ping of the program's.
  TUTTI_MESSAGE_PONG = 10,
} tutti_opcode;

// A request that is being served.
typedef struct tutti_exchange tutti_exchange;

// A message from the client.
typedef struct tutti_message tutti_message;

// A process that the server runs.
typedef struct tutti_process tutti_process;

// A thread that serves requests.
typedef struct tutti_worker tutti_worker;

// Bytes that belong to the library. Those of a request's texts are followed by a NUL that `length` does not count.
typedef struct tutti_bytes {
  // The first byte; never NULL.
  const uint8_t *data;
  // The number of bytes.
  size_t length;
} tutti_bytes;

// A name and a value.
typedef struct tutti_field {
  // The name.
  struct tutti_bytes name;
  // The value.
  struct tutti_bytes value;
} tutti_field;

// Called for each slot with news.
typedef void (*tutti_news)(uint32_t slot, void *data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The number by which tutti_worker_attention names the exchange.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended.
uint32_t tutti_exchange_slot(const struct tutti_exchange *exchange);

// True if the client has gone, or the request's time is up: what is written goes nowhere.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended.
bool tutti_exchange_is_gone(const struct tutti_exchange *exchange);

// Reads from the body into `target`: how many bytes, 0 at its end. Waits for a body that is still coming; an event loop gets
// TUTTI_AGAIN instead if `wait` is false. TUTTI_GONE: the client went away in the middle; TUTTI_SYSTEM: it cannot be read.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `length` bytes from `target` are writable.
ptrdiff_t tutti_body_read(struct tutti_exchange *exchange,
                          uint8_t *target,
                          size_t length,
                          bool wait);

// Sets status and fields of the response, once, before anything is written: 200 to 599, or 101 to accept a WebSocket.
// TUTTI_INVALID: a status or a field that may not be sent, or they were set before. TUTTI_TOO_LARGE: the fields take more than 64 KiB;
// others can be set then.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `count` fields from `fields` are readable, with all they point to.
int32_t tutti_response_start(struct tutti_exchange *exchange,
                             uint16_t status,
                             const struct tutti_field *fields,
                             size_t count);

// Sends an interim (1xx) response, at once and before tutti_response_start: 103 (Early Hints), say, with a field `Link`; 102 to
// 199, as often as wanted. A client that does not take it (`settings.http.early_hints`) gets the response only. TUTTI_INVALID: a status or a
// field that may not be sent, or the response has been started. TUTTI_TOO_LARGE: interim responses, the head and the trailer fields of a
// response share 16 KiB. What fails sends nothing, and the response can go on.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `count` fields from `fields` are readable, with all they point to.
int32_t tutti_response_interim(struct tutti_exchange *exchange,
                               uint16_t status,
                               const struct tutti_field *fields,
                               size_t count);

// Sets the trailer fields, between tutti_response_start and tutti_exchange_finish, with which they leave; a second call
// replaces those of the first. They reach clients of HTTP/2 and 3, and those of HTTP/1.1 that say `TE: trailers` if the head had no
// `Content-Length`; the head must name them in a field `Trailer`, unless the client has HTTP/2 or 3 and there is no `Content-Length`. Fields
// that are to be known before the body (framing, authentication, cookies; RFC 9110, section 6.5.1) reach no client. TUTTI_INVALID: a field
// that may not be sent, or the response has not been started. TUTTI_TOO_LARGE: they share 16 KiB with the head and what went before
// it. What fails leaves those that were set before.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `count` fields from `fields` are readable, with all they point to.
int32_t tutti_response_trailers(struct tutti_exchange *exchange,
                                const struct tutti_field *fields,
                                size_t count);

// Adds to the response's body: how many bytes were taken. With `wait` all of them; without, as many as there is room
// for, and TUTTI_AGAIN when there is none. TUTTI_GONE: the response has no reader any more.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `length` bytes from `data` are readable.
ptrdiff_t tutti_response_write(struct tutti_exchange *exchange,
                               const uint8_t *data,
                               size_t length,
                               bool wait);

// Sends what there is of the response, the head first.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended.
void tutti_response_flush(struct tutti_exchange *exchange);

// Completes the response (a 200 without fields if none was started) and ends the exchange.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended, and is not used again; nor is what it pointed to.
void tutti_exchange_finish(struct tutti_exchange *exchange);

// Gives the request up and ends the exchange: the client gets a 502, or sees that the response is not whole.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended, and is not used again; nor is what it pointed to.
void tutti_exchange_abort(struct tutti_exchange *exchange);

// The client's next message, in `*message`, to be given back by tutti_message_free. Waits for it; without `wait` TUTTI_AGAIN says
// that none is whole yet. TUTTI_GONE: there will be none any more; finish or abort the exchange.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `message` is NULL or writable.
int32_t tutti_message_next(struct tutti_exchange *exchange,
                           bool wait,
                           struct tutti_message **message);

// The kind of the message (tutti_opcode); 0 for NULL.
//
// # Safety
// `message` is NULL or from tutti_message_next.
uint32_t tutti_message_opcode(const struct tutti_message *message);

// Its bytes; valid until tutti_message_free.
//
// # Safety
// `message` is NULL or from tutti_message_next.
struct tutti_bytes tutti_message_bytes(const struct tutti_message *message);

// Gives a message back.
//
// # Safety
// `message` is NULL or from tutti_message_next, and not used again.
void tutti_message_free(struct tutti_message *message);

// Sends a message to the client: how many bytes of it went. With `wait` all of them. Without, a part may go, and
// TUTTI_AGAIN says that nothing did: call again with the rest, and with nothing else until all of it went. A close, ping or
// pong has at most 125 bytes. TUTTI_GONE: the message has no reader any more.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `length` bytes from `data` are readable.
ptrdiff_t tutti_message_send(struct tutti_exchange *exchange,
                             uint32_t opcode,
                             const uint8_t *data,
                             size_t length,
                             bool wait);

// Takes this process's place in the server, or gives NULL: then it was started by somebody else, or cannot take the place
// and has said why on standard error; `status`, unless NULL, is TUTTI_OK or TUTTI_SYSTEM accordingly.
//
// To be called once, first thing in main: it takes over descriptors by number, and installs handlers for SIGTERM and SIGQUIT.
// Given back by tutti_process_close.
//
// # Safety
// `status` is NULL or writable.
struct tutti_process *tutti_process_open(int32_t *status);

// Gives the process back; its workers must have been given back before. The program should exit then.
//
// # Safety
// `process` is NULL or from tutti_process_open, and not used again.
void tutti_process_close(struct tutti_process *process);

// The number of threads that the process is to serve with (`threads` of the configuration); at least 1.
//
// # Safety
// `process` is NULL or from tutti_process_open.
uint32_t tutti_process_threads(const struct tutti_process *process);

// The most exchanges that an event loop should hold (`limits.concurrency`, 1024 by default); 0 when `process` is NULL.
//
// # Safety
// `process` is NULL or from tutti_process_open.
uint32_t tutti_process_concurrency(const struct tutti_process *process);

// Makes the calling thread one of the process's workers; NULL when there are as many as tutti_process_threads already.
// Serialise the calls of several threads. Given back by tutti_worker_free, in the same thread.
//
// # Safety
// `process` is NULL or from tutti_process_open, and used by no other thread meanwhile.
struct tutti_worker *tutti_worker_take(struct tutti_process *process);

// Says that the program is ready, after tutti_worker_ready of each of its workers: the server counts it as started.
//
// # Safety
// `process` is NULL or from tutti_process_open, and used by no other thread meanwhile.
void tutti_process_ready(struct tutti_process *process);

// Says why the program cannot start, in place of tutti_process_ready: `step` is what it was doing, `message` what went wrong.
// The person who changed the configuration reads this. The program should exit with a status other than 0 then.
//
// # Safety
// `process` is NULL or from tutti_process_open, and used by no other thread meanwhile; the texts are NULL or end with a NUL.
void tutti_process_fail(struct tutti_process *process,
                        const char *step,
                        const char *message);

// Makes all workers of the process leave when they have finished what they are doing, as SIGTERM does. From any thread.
void tutti_process_stop(void);

// Takes requests from now on.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
void tutti_worker_ready(struct tutti_worker *worker);

// Takes no further request; then gives the worker back. Its exchanges must have ended.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take, and not used again.
void tutti_worker_free(struct tutti_worker *worker);

// Waits for a request. NULL: leave; tutti_worker_free and the end of the thread should follow. Ended by tutti_exchange_finish or
// tutti_exchange_abort.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
struct tutti_exchange *tutti_worker_next(struct tutti_worker *worker);

// True if the worker is to leave. An event loop ends when its exchanges have ended, WebSockets too: the server bounds the time for that
// (`limits.drain_timeout`).
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
bool tutti_worker_must_stop(const struct tutti_worker *worker);

// Makes this worker an event loop's, before tutti_worker_ready: it holds up to `concurrency` exchanges, and looks for
// requests with tutti_worker_try_next instead of tutti_worker_next. TUTTI_SYSTEM: the server made no event for it.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
int32_t tutti_worker_enter_loop(struct tutti_worker *worker,
                                uint32_t concurrency);

// The descriptor to poll for reading beside the program's own; -1 when there is none. It stays the library's.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
int tutti_worker_event_fd(const struct tutti_worker *worker);

// Makes the descriptor unreadable again: after each poll that reports it, unless the poll is edge-triggered.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
void tutti_worker_clear_event(struct tutti_worker *worker);

// A request if one waits and this worker may take it, else NULL. Run its handler until that waits for something before
// asking for the next. Ended by tutti_exchange_finish or tutti_exchange_abort.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
struct tutti_exchange *tutti_worker_try_next(struct tutti_worker *worker);

// To be called when the loop has nothing left to do. True: it may poll, the descriptor will become readable. False: look again.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
bool tutti_worker_prepare_sleep(struct tutti_worker *worker);

// To be called when the poll has returned, for whatever reason.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take.
void tutti_worker_woken(struct tutti_worker *worker);

// Calls `news` with the slot (tutti_exchange_slot) of each exchange that may go on: what answered TUTTI_AGAIN may work now, or
// its client has gone. Slots of exchanges that have ended may be among them.
//
// # Safety
// `worker` is NULL or this thread's, from tutti_worker_take; `news` does not unwind, and may not use `worker`.
void tutti_worker_attention(struct tutti_worker *worker,
                            tutti_news news,
                            void *data);

// A text of the request, followed by a NUL; empty where there is none, and for a `what` (of tutti_text) that does not exist.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended.
struct tutti_bytes tutti_request_text(const struct tutti_exchange *exchange,
                                      uint32_t what);

// A number of the request; -1 for a `what` (of tutti_number) that does not exist.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended.
int64_t tutti_request_number(const struct tutti_exchange *exchange, uint32_t what);

// Field number `index`, in order, from 0; name and value are followed by a NUL. False when there is no such field.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `field` is NULL or writable.
bool tutti_request_field(const struct tutti_exchange *exchange,
                         size_t index,
                         struct tutti_field *field);

// The value of the first field of that name, in any case, followed by a NUL; false when there is none.
//
// # Safety
// `exchange` is NULL or this thread's and has not ended; `length` bytes from `name` are readable; `value` is NULL or writable.
bool tutti_request_find(const struct tutti_exchange *exchange,
                        const uint8_t *name,
                        size_t length,
                        struct tutti_bytes *value);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TUTTI_WORKER_H */
