/* The environ of a request (PSGI 1.1, "The Environment"). */

#include "internal.h"

static const char *const NAMES[KEY_COUNT] = {
	"REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "REQUEST_URI", "QUERY_STRING", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL",
	"REMOTE_ADDR", "REMOTE_PORT", "REMOTE_USER", "SERVER_SOFTWARE", "CONTENT_TYPE", "CONTENT_LENGTH", "psgi.version", "psgi.url_scheme", "psgi.input", "psgi.errors",
	"psgi.multithread", "psgi.multiprocess", "psgi.run_once", "psgi.nonblocking", "psgi.streaming", "psgix.input.buffered",
	"psgix.harakiri", "psgix.harakiri.commit", "psgix.cleanup", "psgix.cleanup.handlers",
};

static const char *const VALUES[VALUE_COUNT] = { "", "GET", "POST", "HEAD", "HTTP/1.0", "HTTP/1.1", "http", "https", TUTTI_SOFTWARE };

void tutti_request_prepare(pTHX_ tutti_perl *perl)
{
	for (int i = 0; i < KEY_COUNT; i++) {
		perl->keys[i] = newSVpvn_share(NAMES[i], (I32) strlen(NAMES[i]), 0);
	}
	for (int i = 0; i < VALUE_COUNT; i++) {
		perl->values[i] = newSVpvn_share(VALUES[i], (I32) strlen(VALUES[i]), 0);
	}
	perl->version = newAV();
	av_push(perl->version, newSViv(1));
	av_push(perl->version, newSViv(1));
	perl->message = newSVpvs("");
}

static void store(pTHX_ tutti_perl *perl, HV *environ, int key, SV *value)
{
	SV *name = perl->keys[key];
	if (!hv_store_ent(environ, name, value, SvSHARED_HASH(name))) {
		SvREFCNT_dec(value);
	}
}

static void store_bytes(pTHX_ tutti_perl *perl, HV *environ, int key, tutti_bytes bytes)
{
	store(aTHX_ perl, environ, key, newSVpvn(bytes.len ? bytes.data : "", bytes.len));
}

/* One of the prepared values if it is that, with no memory of its own. */
static void store_common(pTHX_ tutti_perl *perl, HV *environ, int key, tutti_bytes bytes, int first, int last)
{
	for (int i = first; i <= last; i++) {
		SV *value = perl->values[i];
		if (SvCUR(value) == bytes.len && (bytes.len == 0 || memEQ(SvPVX_const(value), bytes.data, bytes.len))) {
			store(aTHX_ perl, environ, key, newSVsv(value));
			return;
		}
	}
	store_bytes(aTHX_ perl, environ, key, bytes);
}

static SV *make_key(pTHX_ tutti_bytes name)
{
	SV *text = sv_2mortal(newSV(name.len + 6));
	char *to = SvPVX(text);
	Copy("HTTP_", to, 5, char);
	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];
		to[5 + i] = isALPHANUMERIC_A(c) ? toUPPER_A(c) : '_';
	}
	return newSVpvn_share(to, (I32) (name.len + 5), 0);
}

/* The key of a field's name. Clients spell few names in few ways: those seen last are kept. NULL: not in the environ. */
static SV *find_key(pTHX_ tutti_perl *perl, tutti_bytes name)
{
	if (name.len == 0) {
		return NULL;
	}
	if (name.len > TUTTI_NAME_MAX) {
		return sv_2mortal(make_key(aTHX_ name));
	}
	const U8 *bytes = (const U8 *) name.data;
	size_t at = (name.len * 31 + bytes[0] * 7u + bytes[name.len / 2] * 5u + bytes[name.len - 1]) % TUTTI_NAMES;
	tutti_name *known = &perl->names[at];
	if (known->len != name.len || memNE(known->name, name.data, name.len)) {
		SvREFCNT_dec(known->key);
		known->key = tutti_is_special(name) ? NULL : make_key(aTHX_ name);
		Copy(name.data, known->name, name.len, char);
		known->len = (U8) name.len;
	}
	return known->key;
}

static void store_field(pTHX_ tutti_perl *perl, HV *environ, const tutti_field *field)
{
	SV *key = find_key(aTHX_ perl, field->name);
	if (!key) {
		if (tutti_is(field->name, "content-type")) {
			store_bytes(aTHX_ perl, environ, KEY_CONTENT_TYPE, field->value);
		}
		return;
	}
	HE *entry = hv_fetch_ent(environ, key, 1, SvSHARED_HASH(key));
	if (!entry) {
		return;
	}
	SV *value = HeVAL(entry);
	if (!SvOK(value)) {
		sv_setpvn(value, field->value.len ? field->value.data : "", field->value.len);
		return;
	}
	/* Repeated fields become one value (RFC 9110 section 5.3; RFC 9113 section 8.2.3 for Cookie). */
	if (tutti_is(field->name, "cookie")) {
		sv_catpvs(value, "; ");
	} else {
		sv_catpvs(value, ", ");
	}
	sv_catpvn(value, field->value.data, field->value.len);
}

static void store_constants(pTHX_ tutti_perl *perl, HV *environ)
{
	const tutti_request *request = perl->request;
	store(aTHX_ perl, environ, KEY_SERVER_SOFTWARE, newSVsv(perl->values[VALUE_SOFTWARE]));
	store(aTHX_ perl, environ, KEY_VERSION, newRV_inc((SV *) perl->version));
	store(aTHX_ perl, environ, KEY_INPUT, tutti_input(aTHX_ perl));
	store(aTHX_ perl, environ, KEY_ERRORS, tutti_errors(aTHX_ perl));
	store(aTHX_ perl, environ, KEY_MULTITHREAD, newSViv(perl->multithread));
	store(aTHX_ perl, environ, KEY_MULTIPROCESS, newSViv(perl->multiprocess));
	store(aTHX_ perl, environ, KEY_RUN_ONCE, newSViv(0));
	store(aTHX_ perl, environ, KEY_NONBLOCKING, newSViv(0));
	store(aTHX_ perl, environ, KEY_STREAMING, newSViv(1));
	store(aTHX_ perl, environ, KEY_INPUT_BUFFERED, newSViv(request->body != TUTTI_BODY_STREAM));
	store(aTHX_ perl, environ, KEY_HARAKIRI, newSViv(1));
	store(aTHX_ perl, environ, KEY_CLEANUP, newSViv(1));
	store(aTHX_ perl, environ, KEY_CLEANUP_HANDLERS, newRV_inc((SV *) perl->cleanup));
}

SV *tutti_environ(pTHX_ tutti_perl *perl)
{
	const tutti_request *request = perl->request;
	if (!perl->environ) {
		perl->environ = newHV();
		hv_ksplit(perl->environ, 32);
	}
	if (!perl->cleanup) {
		perl->cleanup = newAV();
	}
	HV *environ = perl->environ;
	store_common(aTHX_ perl, environ, KEY_REQUEST_METHOD, request->method, VALUE_GET, VALUE_HEAD);
	store_common(aTHX_ perl, environ, KEY_QUERY_STRING, request->query, VALUE_EMPTY, VALUE_EMPTY);
	store_common(aTHX_ perl, environ, KEY_SERVER_PROTOCOL, request->protocol, VALUE_HTTP10, VALUE_HTTP11);
	store_common(aTHX_ perl, environ, KEY_URL_SCHEME, request->scheme, VALUE_HTTP, VALUE_HTTPS);
	store(aTHX_ perl, environ, KEY_SCRIPT_NAME, newSVsv(perl->values[VALUE_EMPTY]));
	store_bytes(aTHX_ perl, environ, KEY_PATH_INFO, request->path);
	store_bytes(aTHX_ perl, environ, KEY_REQUEST_URI, request->target);
	store_bytes(aTHX_ perl, environ, KEY_SERVER_NAME, request->server_name);
	store_bytes(aTHX_ perl, environ, KEY_REMOTE_ADDR, request->remote_address);
	store(aTHX_ perl, environ, KEY_SERVER_PORT, newSVuv(request->server_port));
	store(aTHX_ perl, environ, KEY_REMOTE_PORT, newSVuv(request->remote_port));
	if (request->user.len) {
		store_bytes(aTHX_ perl, environ, KEY_REMOTE_USER, request->user);
	}
	if (request->content_length >= 0) {
		store(aTHX_ perl, environ, KEY_CONTENT_LENGTH, newSViv((IV) request->content_length));
	}
	store_constants(aTHX_ perl, environ);
	for (size_t i = 0; i < request->field_count; i++) {
		store_field(aTHX_ perl, environ, &request->fields[i]);
	}
	return newRV_inc((SV *) environ);
}

/* After the request. What the application still holds, also weakly, is its own from now on. */
void tutti_environ_release(pTHX_ tutti_perl *perl)
{
	HV *environ = perl->environ;
	if (environ && (SvREFCNT(environ) != 1 || SvOBJECT(environ) || SvMAGICAL(environ) || SvOOK(environ))) {
		SvREFCNT_dec((SV *) environ);
		perl->environ = NULL;
	} else if (environ) {
		hv_clear(environ);
	}
	AV *cleanup = perl->cleanup;
	if (cleanup && (SvREFCNT(cleanup) != 1 || SvOBJECT(cleanup) || SvMAGICAL(cleanup))) {
		SvREFCNT_dec((SV *) cleanup);
		perl->cleanup = NULL;
	} else if (cleanup && AvFILLp(cleanup) >= 0) {
		av_clear(cleanup);
	}
}
