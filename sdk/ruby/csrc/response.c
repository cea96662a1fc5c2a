/* The answer of an application: an array of status, header fields and body (Rack, "The Response").
 *
 * All that can be wrong with the head is found before it is sent, so that it is a 500.
 */

#include "internal.h"
#include <stdio.h>

static ID id_text, id_each, id_close, id_to_i, id_call, id_to_path, id_to_ary;
static VALUE hijack_name, unframed_class;

typedef struct {
	tutti_thread *thread;
	VALUE body;
	VALUE hijack; /* nil, or what is called with the stream once the head is sent */
	unsigned status;
	bool knows_length;
	bool is_framed; /* the application frames the body itself */
	int64_t length; /* as the application says */
} answer;

static bool has_no_body(unsigned status)
{
	return status < 200 || status == 204 || status == 304;
}

/* Makes room for so many bytes of the head; what there is of it may move. */
static void make_room(tutti_thread *thread, size_t more)
{
	if (thread->text_room - thread->text_len >= more) {
		return;
	}
	size_t room = thread->text_room * 2 + more + 1024;
	char *text = ruby_xmalloc(room);
	if (thread->text_len > 0) {
		memcpy(text, thread->text, thread->text_len);
	}
	for (size_t i = 0; i < thread->field_count; i++) {
		tutti_field *field = &thread->fields[i];
		field->name.data = text + (field->name.data - thread->text);
		field->value.data = text + (field->value.data - thread->text);
	}
	ruby_xfree(thread->text);
	thread->text = text;
	thread->text_room = room;
}

/* Room for the bytes has been made. */
static tutti_bytes copy(tutti_thread *thread, tutti_bytes bytes)
{
	char *to = thread->text + thread->text_len;
	if (bytes.len > 0) {
		memcpy(to, bytes.data, bytes.len);
	}
	thread->text_len += bytes.len;
	return (tutti_bytes) { to, bytes.len };
}

static void add_field(tutti_thread *thread, tutti_bytes name, tutti_bytes value)
{
	if (thread->field_count == thread->field_room) {
		size_t room = thread->field_room * 2 + 16;
		thread->fields = ruby_xrealloc2(thread->fields, room, sizeof(tutti_field));
		thread->field_room = room;
	}
	make_room(thread, name.len + value.len);
	tutti_bytes title = copy(thread, name);
	thread->fields[thread->field_count++] = (tutti_field) { title, copy(thread, value) };
}

/* The text of an object. rb_obj_as_string() would make one up where `to_s` gives none. */
static VALUE text_of(VALUE object)
{
	return RB_TYPE_P(object, T_STRING) ? object : rb_funcall(tutti.module, id_text, 1, object);
}

/* A value, or several with line ends between them (Rack 2). */
static void add_lines(answer *answer, VALUE name, VALUE value)
{
	if (NIL_P(value)) {
		return;
	}
	VALUE string = text_of(value);
	tutti_bytes rest = tutti_bytes_of(string);
	tutti_bytes title = tutti_bytes_of(name);
	for (;;) {
		const char *end = rest.len ? memchr(rest.data, '\n', rest.len) : NULL;
		tutti_bytes line = { rest.data, end ? (size_t) (end - rest.data) : rest.len };
		add_field(answer->thread, title, line);
		if (!end) {
			break;
		}
		rest = (tutti_bytes) { end + 1, rest.len - line.len - 1 };
	}
	RB_GC_GUARD(string);
	RB_GC_GUARD(name);
}

static void add(answer *answer, VALUE name, VALUE value)
{
	VALUE title = text_of(name);
	tutti_bytes text = tutti_bytes_of(title);
	if (text.len >= 5 && memcmp(text.data, "rack.", 5) == 0) {
		/* For the server, not for the client. */
		if (rb_str_equal(title, hijack_name) == Qtrue) {
			answer->hijack = value;
		}
		return;
	}
	bool says_length = tutti_is(text, "content-length") && !NIL_P(value);
	if (tutti_is(text, "transfer-encoding") && RB_TYPE_P(value, T_STRING) && tutti_is(tutti_bytes_of(value), "chunked")) {
		answer->is_framed = true;
		return;
	}
	if (RB_TYPE_P(value, T_ARRAY)) {
		for (long i = 0; i < RARRAY_LEN(value); i++) {
			add_lines(answer, title, rb_ary_entry(value, i));
		}
	} else {
		add_lines(answer, title, value);
	}
	if (says_length) {
		VALUE number = rb_check_to_integer(rb_Integer(text_of(value)), "to_i");
		answer->knows_length = true;
		answer->length = NUM2LL(number);
	}
}

static int add_pair(VALUE name, VALUE value, VALUE argument)
{
	add((answer *) argument, name, value);
	return ST_CONTINUE;
}

static VALUE add_yielded(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument))
{
	if (argc == 1 && RB_TYPE_P(argv[0], T_ARRAY) && RARRAY_LEN(argv[0]) == 2) {
		add((answer *) argument, rb_ary_entry(argv[0], 0), rb_ary_entry(argv[0], 1));
	} else if (argc == 2) {
		add((answer *) argument, argv[0], argv[1]);
	} else {
		rb_raise(rb_eTypeError, "the headers of a response must yield names and values");
	}
	return Qnil;
}

static void read_head(answer *answer, VALUE status, VALUE headers)
{
	if (!rb_respond_to(status, id_to_i)) {
		rb_raise(rb_eTypeError, "the status of a response must be a number, not %" PRIsVALUE, rb_inspect(status));
	}
	int number = NUM2INT(rb_funcall(status, id_to_i, 0));
	bool is_accepted = number == 101 && answer->thread->request->is_websocket;
	if (!is_accepted && (number < 200 || number > 599)) {
		rb_raise(rb_eArgError, "the status of a response must be a number from 200 to 599, not %" PRIsVALUE, rb_inspect(status));
	}
	answer->status = (unsigned) number;
	answer->thread->field_count = answer->thread->text_len = 0;
	if (RB_TYPE_P(headers, T_HASH)) {
		rb_hash_foreach(headers, add_pair, (VALUE) answer);
	} else if (!NIL_P(headers) && rb_respond_to(headers, id_each)) {
		rb_block_call(headers, id_each, 0, NULL, add_yielded, (VALUE) answer);
	} else {
		rb_raise(rb_eTypeError, "the headers of a response must be a hash, not %" PRIsVALUE, rb_obj_class(headers));
	}
}

static void send_early_hints(tutti_thread *thread, VALUE headers)
{
	answer answer = { .thread = thread, .body = Qnil, .hijack = Qnil };
	thread->field_count = thread->text_len = 0;
	Check_Type(headers, T_HASH);
	rb_hash_foreach(headers, add_pair, (VALUE) &answer);
	const char *fault = host_start(thread->serving, 103, thread->fields, thread->field_count);
	if (fault) {
		rb_raise(rb_eArgError, "the early hints cannot be sent: %s", fault);
	}
}

/* call of `rack.early_hints`: a hash of headers. */
static VALUE early_hints(VALUE self, VALUE headers)
{
	tutti_thread *thread = tutti_serving(self);
	if (!thread->is_started) {
		send_early_hints(thread, headers);
	}
	return Qnil;
}

/* Sends status and fields; `length`, if not negative, becomes the content-length where there is none. */
static void start(answer *answer, int64_t length)
{
	tutti_thread *thread = answer->thread;
	char digits[24];
	bool has_length = length >= 0 && !answer->knows_length && !has_no_body(answer->status) && !(thread->is_head && length == 0);
	if (has_length) {
		int len = snprintf(digits, sizeof digits, "%lld", (long long) length);
		add_field(thread, (tutti_bytes) { "content-length", 14 }, (tutti_bytes) { digits, (size_t) len });
	}
	const char *fault = host_start(thread->serving, answer->status, thread->fields, thread->field_count);
	if (fault) {
		rb_raise(rb_eArgError, "the head of the response cannot be sent: %s", fault);
	}
	thread->is_started = true;
}

static VALUE piece_of(VALUE piece)
{
	if (!RB_TYPE_P(piece, T_STRING)) {
		rb_raise(rb_eTypeError, "the body of a response must consist of strings, not %" PRIsVALUE, rb_obj_class(piece));
	}
	return piece;
}

static void respond_array(answer *answer, VALUE body)
{
	tutti_thread *thread = answer->thread;
	int64_t total = 0;
	long count = RARRAY_LEN(body);
	for (long i = 0; i < count; i++) {
		total += RSTRING_LEN(piece_of(rb_ary_entry(body, i)));
	}
	start(answer, total);
	if (thread->is_head || has_no_body(answer->status)) {
		return;
	}
	for (long i = 0; i < count && i < RARRAY_LEN(body); i++) {
		if (!tutti_write(thread, piece_of(rb_ary_entry(body, i)))) {
			return;
		}
	}
}

static VALUE write_piece(RB_BLOCK_CALL_FUNC_ARGLIST(piece, argument))
{
	answer *answer = (void *) argument;
	tutti_thread *thread = answer->thread;
	piece_of(piece);
	if (!thread->request || tutti_is_forked || RSTRING_LEN(piece) == 0) {
		return Qnil;
	}
	if (!thread->is_started) {
		start(answer, -1);
	}
	if (!tutti_write(thread, piece) || host_flush(thread->serving) != 0) {
		rb_iter_break();
	}
	return Qnil;
}

static void respond_each(answer *answer)
{
	tutti_thread *thread = answer->thread;
	if (thread->is_head || has_no_body(answer->status)) {
		start(answer, -1);
		return;
	}
	rb_block_call(answer->body, id_each, 0, NULL, write_piece, (VALUE) answer);
	if (!thread->is_started && thread->request && !tutti_is_forked) {
		start(answer, 0);
	}
}

typedef struct {
	tutti_thread *thread;
	int result;
} sending;

static void *send_away(void *argument)
{
	sending *call = argument;
	call->result = host_send(call->thread->serving);
	return NULL;
}

static VALUE send_file(VALUE argument)
{
	answer *answer = (void *) argument;
	sending call = { .thread = answer->thread };
	if (!answer->thread->is_head && !has_no_body(answer->status)) {
		tutti_away(answer->thread, send_away, &call);
		if (call.result < 0) {
			rb_raise(rb_eIOError, "the file of the response cannot be read to its end");
		}
	}
	return Qnil;
}

static VALUE close_file(VALUE argument)
{
	host_close(((tutti_thread *) argument)->serving);
	return Qnil;
}

/* A body that is a file, if it can be opened and has the length that the application says. */
static bool respond_file(answer *answer)
{
	VALUE path = rb_funcall(answer->body, id_to_path, 0);
	int64_t size;
	if (!RB_TYPE_P(path, T_STRING) || host_open(answer->thread->serving, StringValueCStr(path), &size) != 0) {
		return false;
	}
	if (answer->knows_length && answer->length != size) {
		host_close(answer->thread->serving);
		return false;
	}
	start(answer, size);
	rb_ensure(send_file, (VALUE) answer, close_file, (VALUE) answer->thread);
	return true;
}

/* A handshake of WebSocket that is accepted: the callable gets the connection itself. */
static void respond_switched(answer *answer)
{
	VALUE callable = NIL_P(answer->hijack) ? answer->body : answer->hijack;
	if (!rb_respond_to(callable, id_call)) {
		rb_raise(rb_eTypeError, "an answer of 101 must have `rack.hijack` among its headers, or a body that responds to `call`");
	}
	start(answer, -1);
	rb_funcall(callable, id_call, 1, tutti_take_over(answer->thread));
}

static VALUE respond_body(VALUE argument)
{
	answer *answer = (void *) argument;
	tutti_thread *thread = answer->thread;
	VALUE body = answer->body;
	if (answer->status == 101) {
		respond_switched(answer);
		return Qnil;
	}
	if (!NIL_P(answer->hijack)) {
		start(answer, -1);
		tutti_stream_to(thread, answer->hijack);
		return Qnil;
	}
	if (answer->is_framed && rb_respond_to(body, id_each)) {
		body = answer->body = rb_class_new_instance(1, &body, unframed_class);
	}
	if (RB_TYPE_P(body, T_ARRAY)) {
		respond_array(answer, body);
		return Qnil;
	}
	if (rb_respond_to(body, id_to_path) && respond_file(answer)) {
		return Qnil;
	}
	if (rb_respond_to(body, id_each)) {
		VALUE array = rb_respond_to(body, id_to_ary) ? rb_funcall(body, id_to_ary, 0) : Qnil;
		if (RB_TYPE_P(array, T_ARRAY)) {
			respond_array(answer, array);
		} else {
			respond_each(answer);
		}
	} else if (rb_respond_to(body, id_call)) {
		start(answer, -1);
		tutti_stream_to(thread, body);
	} else {
		rb_raise(rb_eTypeError, "the body of a response must respond to `each` or `call`; %" PRIsVALUE " does not%s", rb_obj_class(body),
			RB_TYPE_P(body, T_STRING) ? ": put the string into an array" : "");
	}
	return Qnil;
}

static VALUE close_body(VALUE argument)
{
	const answer *answer = (void *) argument;
	if (rb_respond_to(answer->body, id_close)) {
		rb_funcall(answer->body, id_close, 0);
	}
	return Qnil;
}

static VALUE respond(VALUE argument)
{
	VALUE response = (VALUE) ((void **) argument)[1];
	answer *answer = ((void **) argument)[0];
	read_head(answer, rb_ary_entry(response, 0), rb_ary_entry(response, 1));
	return respond_body((VALUE) answer);
}

void tutti_respond(tutti_thread *thread, VALUE response)
{
	VALUE array = rb_check_array_type(response);
	if (NIL_P(array) || RARRAY_LEN(array) < 3) {
		rb_raise(rb_eTypeError, "the application must return an array of status, headers and body, not %" PRIsVALUE,
			NIL_P(array) ? rb_obj_class(response) : rb_sprintf("%ld elements", RARRAY_LEN(array)));
	}
	answer answer = { .thread = thread, .body = rb_ary_entry(array, 2), .hijack = Qnil };
	void *arguments[] = { &answer, (void *) array };
	rb_ensure(respond, (VALUE) arguments, close_body, (VALUE) &answer);
	RB_GC_GUARD(array);
	RB_GC_GUARD(answer.body);
	tutti_finish(thread);
}

void tutti_response_prepare(void)
{
	id_text = rb_intern("text");
	id_each = rb_intern("each");
	id_close = rb_intern("close");
	id_to_i = rb_intern("to_i");
	id_call = rb_intern("call");
	id_to_path = rb_intern("to_path");
	id_to_ary = rb_intern("to_ary");
	hijack_name = rb_interned_str_cstr("rack.hijack");
	rb_gc_register_mark_object(hijack_name);
	unframed_class = rb_const_get(tutti.module, rb_intern("Unframed"));
	rb_gc_register_mark_object(unframed_class);
	VALUE hints = rb_define_class_under(tutti.module, "EarlyHints", rb_cObject);
	rb_undef_alloc_func(hints);
	rb_define_method(hints, "call", early_hints, 1);
	tutti.early_hints_class = hints;
}
