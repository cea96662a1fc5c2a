/* The answer (PSGI 1.1, "The Response"): checked whole before its head leaves, so that what is wrong with it can still become a 500.
 *
 * Everything here may die; `tutti_perl_serve` catches it.
 */

#include "internal.h"
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a value. What has wide characters has to be encoded by the application. The bytes live until the request's temporaries go. */
static tutti_bytes bytes_of(pTHX_ SV *value, const char *what)
{
	tutti_bytes bytes = { "", 0 };
	STRLEN len;

	SvGETMAGIC(value);
	if (!SvOK(value)) {
		return bytes;
	}
	bytes.data = SvPV_nomg_const(value, len);
	if (SvUTF8(value) || (SvROK(value) && SvAMAGIC(value))) {
		SV *copy = sv_2mortal(newSVpvn(bytes.data, len));
		if (SvUTF8(value)) {
			SvUTF8_on(copy);
		}
		if (!sv_utf8_downgrade(copy, TRUE)) {
			croak("%s has characters above 255: it must be encoded, for example by Encode::encode_utf8", what);
		}
		bytes.data = SvPV_const(copy, len);
	}
	bytes.len = len;
	return bytes;
}

static AV *array_of(pTHX_ SV *value, const char *what)
{
	if (value) {
		SvGETMAGIC(value);
	}
	if (!value || !SvROK(value) || SvTYPE(SvRV(value)) != SVt_PVAV) {
		croak("%s must be an array reference", what);
	}
	return (AV *) SvRV(value);
}

static SV *element(pTHX_ AV *array, SSize_t index)
{
	SV **found = av_fetch(array, index, 0);
	return found ? *found : NULL;
}

static tutti_field *fields_room(tutti_perl *perl, size_t wanted)
{
	if (wanted > perl->field_room) {
		perl->field_room = wanted + 16;
		perl->fields = saferealloc(perl->fields, perl->field_room * sizeof(tutti_field));
	}
	return perl->fields;
}

static tutti_bytes *spans_room(tutti_perl *perl, size_t wanted)
{
	if (wanted > perl->span_room) {
		perl->span_room = wanted + 16;
		perl->spans = saferealloc(perl->spans, perl->span_room * sizeof(tutti_bytes));
	}
	return perl->spans;
}

static bool is_length(tutti_bytes name)
{
	return tutti_is(name, "content-length");
}

static bool has_no_body(unsigned status)
{
	return status < 200 || status == 204 || status == 304;
}

/* Sends status and fields; `length`, if not negative, becomes the Content-Length where there is none. */
void tutti_start(pTHX_ tutti_perl *perl, AV *response, SSize_t length)
{
	SV *first = element(aTHX_ response, 0);
	IV status = first ? SvIV(first) : 0;
	if (status < 200 || status > 599) {
		croak("the status of a response must be a number from 200 to 599, not `%" SVf "`", SVfARG(first ? first : &PL_sv_undef));
	}
	AV *list = array_of(aTHX_ element(aTHX_ response, 1), "the second element of a response, the header fields,");
	SSize_t elements = av_len(list) + 1;
	if (elements % 2) {
		croak("the header fields of a response must be pairs: there are %" IVdf " elements", (IV) elements);
	}
	size_t count = (size_t) elements / 2;
	bool knows_length = false;
	fields_room(perl, count + 1);
	for (size_t i = 0; i < count; i++) {
		SV *name = element(aTHX_ list, (SSize_t) (2 * i));
		SV *value = element(aTHX_ list, (SSize_t) (2 * i + 1));
		tutti_bytes text = bytes_of(aTHX_ name ? name : &PL_sv_undef, "the name of a header field");
		tutti_bytes content = bytes_of(aTHX_ value ? value : &PL_sv_undef, "the value of a header field");
		perl->fields[i].name = text;
		perl->fields[i].value = content;
		knows_length |= is_length(text);
	}
	char digits[24];
	if (length >= 0 && !knows_length && !has_no_body((unsigned) status) && !(perl->is_head && length == 0)) {
		int len = my_snprintf(digits, sizeof digits, "%" IVdf, (IV) length);
		perl->fields[count].name = (tutti_bytes) { "Content-Length", 14 };
		perl->fields[count].value = (tutti_bytes) { digits, (size_t) len };
		count++;
	}
	if (perl->is_started || !perl->exchange) {
		croak("the response was started twice");
	}
	perl->is_started = true;
	host_start(perl->exchange, (unsigned) status, perl->fields, count);
}

void tutti_finish(tutti_perl *perl)
{
	if (!perl->is_ended && perl->exchange) {
		perl->is_ended = true;
		host_finish(perl->exchange);
	}
}

static void respond_array(pTHX_ tutti_perl *perl, AV *response, AV *body)
{
	SSize_t count = av_len(body) + 1;
	size_t total = 0;
	spans_room(perl, (size_t) count);
	for (SSize_t i = 0; i < count; i++) {
		SV *piece = element(aTHX_ body, i);
		tutti_bytes bytes = { "", 0 };
		if (piece) {
			bytes = bytes_of(aTHX_ piece, "the body of a response");
		}
		perl->spans[i] = bytes;
		total += bytes.len;
	}
	tutti_start(aTHX_ perl, response, (SSize_t) total);
	for (SSize_t i = 0; i < count; i++) {
		if (perl->spans[i].len > 0 && host_write(perl->exchange, perl->spans[i].data, perl->spans[i].len) != 0) {
			break;
		}
	}
	tutti_finish(perl);
}

static void close_body(pTHX_ SV *body)
{
	dSP;
	ENTER;
	SAVETMPS;
	PUSHMARK(SP);
	XPUSHs(body);
	PUTBACK;
	call_method("close", G_DISCARD | G_VOID);
	FREETMPS;
	LEAVE;
}

/* The file of perl behind a body that reads like any other; NULL when its methods have to be called. */
static PerlIO *file_of(pTHX_ SV *body)
{
	SV *referent = SvRV(body);
	IO *io = NULL;
	if (SvTYPE(referent) == SVt_PVGV && isGV_with_GP((GV *) referent)) {
		io = GvIO((GV *) referent);
	} else if (SvTYPE(referent) == SVt_PVIO) {
		io = (IO *) referent;
	}
	if (!io || !IoIFP(io) || SvRMAGICAL(io)) {
		return NULL;
	}
	if (SvOBJECT(referent)) {
		/* A class with a `getline` of its own wants it called. */
		GV *method = gv_fetchmethod_autoload(SvSTASH(referent), "getline", FALSE);
		GV *known = gv_fetchmethod_autoload(gv_stashpvs("IO::Handle", 0), "getline", FALSE);
		if (!method || !known || GvCV(method) != GvCV(known)) {
			return NULL;
		}
	}
	return IoIFP(io);
}

/* Only perl's buffer over a descriptor: what is not in the buffer may be read from the descriptor in large pieces. */
static bool is_plain(pTHX_ PerlIO *f)
{
	if (!PerlIOValid(f) || PerlIOBase(f)->tab->size < sizeof(PerlIOBuf) || strNE(PerlIOBase(f)->tab->name, "perlio")) {
		return false;
	}
	PerlIO *below = PerlIONext(f);
	return !(PerlIOBase(f)->flags & (PERLIO_F_CRLF | PERLIO_F_UTF8 | PERLIO_F_WRBUF)) && PerlIOValid(below)
		&& strEQ(PerlIOBase(below)->tab->name, "unix");
}

static SSize_t read_piece(pTHX_ PerlIO *f, bool plain, char *buffer, size_t room)
{
	if (!plain || PerlIO_get_cnt(f) > 0) {
		return PerlIO_read(f, buffer, plain ? (Size_t) PerlIO_get_cnt(f) < room ? (Size_t) PerlIO_get_cnt(f) : room : room);
	}
	for (;;) {
		ssize_t count = read(PerlIO_fileno(f), buffer, room);
		if (count >= 0 || errno != EINTR) {
			return count;
		}
		PERL_ASYNC_CHECK();
	}
}

/* The rest of a regular file, in bytes; -1 where that is not known. */
static SSize_t file_rest(pTHX_ PerlIO *f, bool plain)
{
	struct stat about;
	if (!plain || fstat(PerlIO_fileno(f), &about) != 0 || !S_ISREG(about.st_mode)) {
		return -1;
	}
	Off_t position = PerlIO_tell(f);
	return position >= 0 && position <= about.st_size ? (SSize_t) (about.st_size - position) : -1;
}

static void respond_file(pTHX_ tutti_perl *perl, AV *response, SV *body, PerlIO *f)
{
	bool plain = is_plain(aTHX_ f);
	SSize_t rest = file_rest(aTHX_ f, plain);
	if (!perl->chunk) {
		Newx(perl->chunk, TUTTI_CHUNK, char);
	}
	SSize_t count = read_piece(aTHX_ f, plain, perl->chunk, TUTTI_CHUNK);
	if (count < 0) {
		croak("the body of the response cannot be read: %s", Strerror(errno));
	}
	tutti_start(aTHX_ perl, response, rest);
	while (count > 0 && host_write(perl->exchange, perl->chunk, (size_t) count) == 0) {
		count = read_piece(aTHX_ f, plain, perl->chunk, TUTTI_CHUNK);
		if (count < 0) {
			croak("the body of the response cannot be read: %s", Strerror(errno));
		}
	}
	tutti_finish(perl);
	close_body(aTHX_ body);
}

/* The next piece of a body by its `getline`; NULL at the end. Lives until the temporaries are freed. */
static SV *next_line(pTHX_ SV *body)
{
	dSP;
	PUSHMARK(SP);
	XPUSHs(body);
	PUTBACK;
	int count = call_method("getline", G_SCALAR);
	SPAGAIN;
	SV *line = count > 0 ? POPs : NULL;
	PUTBACK;
	if (line) {
		SvGETMAGIC(line);
	}
	return line && SvOK(line) ? line : NULL;
}

static void respond_lines(pTHX_ tutti_perl *perl, AV *response, SV *body)
{
	ENTER;
	/* Pieces, not lines, from handles that heed it (PSGI: "Body"). */
	GV *separator = gv_fetchpvs("/", GV_ADD, SVt_PV);
	SV *pieces = save_scalar(separator);
	sv_setsv_mg(pieces, sv_2mortal(newRV_noinc(newSViv(TUTTI_CHUNK))));
	bool goes_on = true;
	while (goes_on) {
		ENTER;
		SAVETMPS;
		SV *line = next_line(aTHX_ body);
		tutti_bytes bytes = { "", 0 };
		if (line) {
			bytes = bytes_of(aTHX_ line, "the body of a response");
		}
		if (!perl->is_started) {
			tutti_start(aTHX_ perl, response, -1);
		}
		goes_on = line && (bytes.len == 0 || host_write(perl->exchange, bytes.data, bytes.len) == 0);
		FREETMPS;
		LEAVE;
	}
	LEAVE;
	if (host_is_client_gone(perl->exchange)) {
		tutti_finish(perl);
	}
	/* The end is announced after `close`, which may find that something is wrong. */
	close_body(aTHX_ body);
	tutti_finish(perl);
}

void tutti_respond(pTHX_ tutti_perl *perl, SV *response)
{
	AV *array = array_of(aTHX_ response, "the response");
	SSize_t count = av_len(array) + 1;
	if (count < 3) {
		croak("a response must be an array of three elements: status, header fields and body; there are %" IVdf, (IV) count);
	}
	SV *body = element(aTHX_ array, 2);
	if (body) {
		SvGETMAGIC(body);
	}
	if (!body || !SvROK(body)) {
		if (body && isGV_with_GP(body)) {
			body = sv_2mortal(newRV_inc(body));
		} else {
			croak("the body of a response must be an array reference, a file handle or an object with `getline` and `close`");
		}
	}
	if (SvTYPE(SvRV(body)) == SVt_PVAV && !SvOBJECT(SvRV(body))) {
		respond_array(aTHX_ perl, array, (AV *) SvRV(body));
		return;
	}
	PerlIO *f = file_of(aTHX_ body);
	if (f) {
		respond_file(aTHX_ perl, array, body, f);
	} else {
		respond_lines(aTHX_ perl, array, body);
	}
}
