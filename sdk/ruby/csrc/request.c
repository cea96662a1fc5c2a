/* The environment of a request (Rack, "The Environment"). */

#include "internal.h"
#include <stdio.h>

static const char *const NAMES[KEY_COUNT] = {
	"REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "REQUEST_URI", "REQUEST_PATH", "QUERY_STRING", "SERVER_NAME", "SERVER_PORT",
	"SERVER_PROTOCOL", "HTTP_VERSION", "REMOTE_ADDR", "REMOTE_PORT", "REMOTE_USER", "SERVER_SOFTWARE", "CONTENT_TYPE", "CONTENT_LENGTH",
	"GATEWAY_INTERFACE", "rack.version", "rack.url_scheme", "rack.input", "rack.errors", "rack.multithread", "rack.multiprocess",
	"rack.run_once", "rack.response_finished", "rack.hijack?", "rack.hijack", "rack.hijack_io", "rack.protocol",
	"rack.early_hints",
};

/* A string that is one object for all of the process, and never changes. */
static VALUE constant(const char *text)
{
	VALUE string = rb_interned_str_cstr(text);
	rb_gc_register_mark_object(string);
	return string;
}

void tutti_request_prepare(void)
{
	for (int i = 0; i < KEY_COUNT; i++) {
		tutti.keys[i] = constant(NAMES[i]);
	}
	tutti.empty = constant("");
	tutti.get = constant("GET");
	tutti.post = constant("POST");
	tutti.head = constant("HEAD");
	tutti.http10 = constant("HTTP/1.0");
	tutti.http11 = constant("HTTP/1.1");
	tutti.http2 = constant("HTTP/2.0");
	tutti.http = constant("http");
	tutti.https = constant("https");
	tutti.software = constant(TUTTI_SOFTWARE);
	tutti.gateway = constant("CGI/1.2");
	tutti.protocols = rb_ary_freeze(rb_ary_new_from_args(1, constant("websocket")));
	rb_gc_register_mark_object(tutti.protocols);
	for (int i = 0; i < TUTTI_NAMES; i++) {
		tutti.names[i].key = Qnil;
		rb_gc_register_address(&tutti.names[i].key);
	}
}

static void store(VALUE environment, int key, VALUE value)
{
	rb_hash_aset(environment, tutti.keys[key], value);
}

static VALUE text(tutti_bytes bytes)
{
	return rb_str_new(bytes.len ? bytes.data : "", (long) bytes.len);
}

/* One of the prepared strings if it is that. */
static VALUE known(tutti_bytes bytes, const VALUE *values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if ((size_t) RSTRING_LEN(values[i]) == bytes.len && memcmp(RSTRING_PTR(values[i]), bytes.data, bytes.len) == 0) {
			return values[i];
		}
	}
	return text(bytes);
}

static VALUE number(unsigned value)
{
	char digits[12];
	int len = snprintf(digits, sizeof digits, "%u", value);
	return rb_str_new(digits, len);
}

/* True if a field has its own place in the environment, or none. HTTP_VERSION is the protocol's version here. */
static bool is_special(tutti_bytes name)
{
	return tutti_is_special(name) || tutti_is(name, "version");
}

static VALUE make_key(tutti_bytes name)
{
	char room[256];
	VALUE held = Qnil;
	char *to = name.len + 5 <= sizeof room ? room : rb_alloc_tmp_buffer(&held, (long) name.len + 5);
	memcpy(to, "HTTP_", 5);
	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];
		bool is_lower = c >= 'a' && c <= 'z';
		bool is_kept = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		to[5 + i] = is_lower ? c - ('a' - 'A') : is_kept ? c : '_';
	}
	VALUE key = rb_interned_str(to, (long) name.len + 5);
	if (!NIL_P(held)) {
		rb_free_tmp_buffer(&held);
	}
	return key;
}

/* The key of a field's name. Clients spell few names in few ways: those seen last are kept. nil: not in the environment. */
static VALUE find_key(tutti_bytes name)
{
	if (name.len == 0) {
		return Qnil;
	}
	if (name.len > TUTTI_NAME_MAX) {
		return make_key(name);
	}
	const unsigned char *bytes = (const unsigned char *) name.data;
	size_t at = (name.len * 31 + bytes[0] * 7u + bytes[name.len / 2] * 5u + bytes[name.len - 1]) % TUTTI_NAMES;
	tutti_name *seen = &tutti.names[at];
	if (seen->len != name.len || memcmp(seen->name, name.data, name.len) != 0) {
		seen->key = is_special(name) ? Qnil : make_key(name);
		memcpy(seen->name, name.data, name.len);
		seen->len = (unsigned char) name.len;
	}
	return seen->key;
}

static void store_field(VALUE environment, const tutti_field *field)
{
	VALUE key = find_key(field->name);
	if (NIL_P(key)) {
		if (tutti_is(field->name, "content-type")) {
			store(environment, KEY_CONTENT_TYPE, text(field->value));
		}
		return;
	}
	VALUE before = rb_hash_lookup2(environment, key, Qnil);
	if (NIL_P(before)) {
		rb_hash_aset(environment, key, text(field->value));
		return;
	}
	/* Repeated fields become one value (RFC 9110 section 5.3; RFC 9113 section 8.2.3 for Cookie). */
	rb_str_cat_cstr(before, tutti_is(field->name, "cookie") ? "; " : ", ");
	rb_str_cat(before, field->value.data, (long) field->value.len);
}

static void store_rack(tutti_thread *thread, VALUE environment)
{
	const tutti_request *request = thread->request;
	const VALUE schemes[] = { tutti.http, tutti.https };
	bool is_stream = request->body == TUTTI_BODY_STREAM;
	store(environment, KEY_URL_SCHEME, known(request->scheme, schemes, 2));
	VALUE input = tutti_handle_new(thread, is_stream ? tutti.stream_input_class : tutti.input_class);
	store(environment, KEY_INPUT, input);
	/* The same object, which costs no other: `call` takes the connection over. */
	store(environment, KEY_HIJACK, input);
	store(environment, KEY_MAY_HIJACK, Qtrue);
	if (request->is_websocket) {
		store(environment, KEY_PROTOCOL, tutti.protocols);
	}
	if (request->protocol.len > 5 && request->protocol.data[5] >= '2') {
		/* Clients of HTTP/1 get none unless the configuration says so: a handle for each of their requests would be for nothing. */
		store(environment, KEY_EARLY_HINTS, tutti_handle_new(thread, tutti.early_hints_class));
	}
	store(environment, KEY_ERRORS, thread->errors);
	store(environment, KEY_RESPONSE_FINISHED, rb_ary_new());
	store(environment, KEY_MULTITHREAD, tutti.multithread ? Qtrue : Qfalse);
	store(environment, KEY_MULTIPROCESS, tutti.multiprocess ? Qtrue : Qfalse);
	store(environment, KEY_RUN_ONCE, Qfalse);
	store(environment, KEY_VERSION, tutti.version);
}

VALUE tutti_environment(tutti_thread *thread)
{
	const tutti_request *request = thread->request;
	const VALUE methods[] = { tutti.get, tutti.post, tutti.head };
	const VALUE protocols[] = { tutti.http11, tutti.http2, tutti.http10 };
	VALUE environment = rb_hash_new();
	store(environment, KEY_REQUEST_METHOD, known(request->method, methods, 3));
	store(environment, KEY_SCRIPT_NAME, tutti.empty);
	/* Encoded: Rack's own Files, Rails, Sinatra and Grape all decode it themselves. */
	store(environment, KEY_PATH_INFO, text(request->encoded_path));
	store(environment, KEY_REQUEST_URI, text(request->target));
	store(environment, KEY_REQUEST_PATH, text(request->encoded_path));
	store(environment, KEY_QUERY_STRING, text(request->query));
	store(environment, KEY_SERVER_NAME, text(request->server_name));
	store(environment, KEY_SERVER_PORT, number(request->server_port));
	VALUE protocol = known(request->protocol, protocols, 3);
	store(environment, KEY_SERVER_PROTOCOL, protocol);
	store(environment, KEY_HTTP_VERSION, protocol);
	store(environment, KEY_REMOTE_ADDR, text(request->remote_address));
	store(environment, KEY_REMOTE_PORT, number(request->remote_port));
	if (request->user.len) {
		store(environment, KEY_REMOTE_USER, text(request->user));
	}
	store(environment, KEY_SERVER_SOFTWARE, tutti.software);
	store(environment, KEY_GATEWAY_INTERFACE, tutti.gateway);
	if (request->content_length >= 0) {
		char digits[24];
		int len = snprintf(digits, sizeof digits, "%lld", (long long) request->content_length);
		store(environment, KEY_CONTENT_LENGTH, rb_str_new(digits, len));
	}
	store_rack(thread, environment);
	for (size_t i = 0; i < request->field_count; i++) {
		/* The server agrees on no extension of WebSocket: the application must not either. */
		if (!request->is_websocket || !tutti_is(request->fields[i].name, "sec-websocket-extensions")) {
			store_field(environment, &request->fields[i]);
		}
	}
	return environment;
}
