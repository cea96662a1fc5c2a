/* psgi.input and psgi.errors: file handles of perl with layers of our own below, so that the builtins (`read`, `readline`, `seek`, `eof`,
 * `print`) work on them as well as the methods of IO::Handle, and no Perl code runs for it.
 *
 * One handle of each is kept for all requests of an interpreter. If the application keeps, closes or changes it, the next request gets another.
 */

#include "internal.h"
#include <sys/mman.h>
#include <unistd.h>

/* The input layer. What lies in the slot is copied: a handle may outlive its request. */
typedef struct {
	struct _PerlIO base;
	STDCHAR *start; /* of the buffer */
	STDCHAR *next;
	STDCHAR *end;
	Size_t room;
	Off_t position; /* of the buffer in the body */
	Off_t length;   /* of the body; -1: not known */
	UV serial;      /* the request */
	uint32_t body;
	int descriptor; /* and 1, of a file with the body, for applications that ask for one; 0: there is none */
} input_layer;

/* Other handles may have been opened on the descriptor (`<&=`): perl counts them, and the last one closes it. */
static void close_descriptor(input_layer *layer)
{
	int descriptor = layer->descriptor - 1;
	layer->descriptor = 0;
	if (descriptor >= 0 && PerlIOUnix_refcnt_dec(descriptor) == 0) {
		close(descriptor);
	}
}

static IV input_pushed(pTHX_ PerlIO *f, const char *mode, SV *arg, PerlIO_funcs *table)
{
	IV code = PerlIOBase_pushed(aTHX_ f, mode, arg, table);
	PerlIOBase(f)->flags |= PERLIO_F_OPEN;
	return code;
}

static IV input_popped(pTHX_ PerlIO *f)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	Safefree(layer->start);
	layer->start = layer->next = layer->end = NULL;
	layer->room = 0;
	close_descriptor(layer);
	return 0;
}

static bool write_whole(int descriptor, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t count = write(descriptor, data, len);
		if (count < 0 && errno == EINTR) {
			continue;
		}
		if (count <= 0) {
			return false;
		}
		data += count;
		len -= (size_t) count;
	}
	return true;
}

/* Writes the body to a file of its own: what is in the buffer, or in the spool, which others' bodies share. */
static bool copy_body(pTHX_ input_layer *layer, int descriptor)
{
	tutti_perl *perl = tutti_current;
	if (layer->body != TUTTI_BODY_SPOOL) {
		return write_whole(descriptor, (const char *) layer->start, (size_t) (layer->end - layer->start));
	}
	if (!perl || !perl->exchange || perl->is_ended || perl->serial != layer->serial) {
		return false;
	}
	char *piece;
	Newx(piece, TUTTI_CHUNK, char);
	ssize_t count;
	Off_t done = 0;
	while ((count = host_read(perl->exchange, (uint64_t) done, piece, TUTTI_CHUNK)) > 0 && write_whole(descriptor, piece, (size_t) count)) {
		done += count;
	}
	Safefree(piece);
	return done == layer->length;
}

/* A descriptor is made when somebody asks for it: to duplicate the handle (`open my $copy, '<&', …`), to give it to another program as
 * standard input, for `-s`. It reads on from where the handle is. A body that still comes has none. */
static IV input_fileno(pTHX_ PerlIO *f)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	/* perl's `read` asks for it too, and reads through the layer all the same. */
	bool is_wanted = !PL_op || PL_op->op_type != OP_READ;
	if (layer->descriptor == 0 && is_wanted && layer->body != TUTTI_BODY_STREAM) {
		int descriptor = memfd_create("psgi.input", MFD_CLOEXEC);
		Off_t at = layer->position + (layer->next - layer->start);
		if (descriptor >= 0 && copy_body(aTHX_ layer, descriptor) && lseek(descriptor, at, SEEK_SET) == at) {
			PerlIOUnix_refcnt_inc(descriptor);
			layer->descriptor = descriptor + 1;
		} else if (descriptor >= 0) {
			close(descriptor);
		}
	}
	if (layer->descriptor == 0) {
		errno = EBADF;
	}
	return layer->descriptor - 1;
}

/* A copy of the handle, which goes on from where this one is. */
static PerlIO *input_dup(pTHX_ PerlIO *f, PerlIO *o, CLONE_PARAMS *param, int flags)
{
	f = PerlIOBase_dup(aTHX_ f, o, param, flags);
	if (!f) {
		return NULL;
	}
	const input_layer *from = PerlIOSelf(o, input_layer);
	input_layer *to = PerlIOSelf(f, input_layer);
	Size_t len = (Size_t) (from->end - from->start);
	if (len > 0) {
		Newx(to->start, len, STDCHAR);
		Copy(from->start, to->start, len, STDCHAR);
		to->room = len;
	}
	to->next = to->start + (from->next - from->start);
	to->end = to->start + len;
	to->position = from->position;
	to->length = from->length;
	to->serial = from->serial;
	to->body = from->body;
	return f;
}

static IV input_fill(pTHX_ PerlIO *f)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	tutti_perl *perl = tutti_current;
	ssize_t count = 0;

	if (layer->body >= TUTTI_BODY_SPOOL) {
		layer->position += layer->end - layer->start;
		layer->next = layer->end = layer->start;
		if (!perl || !perl->exchange || perl->is_ended || perl->serial != layer->serial) {
			/* The body was given back with the answer. */
			errno = EIO;
			count = -1;
		} else if (layer->length < 0 || layer->position < layer->length) {
			if (layer->room < TUTTI_CHUNK) {
				Renew(layer->start, TUTTI_CHUNK, STDCHAR);
				layer->room = TUTTI_CHUNK;
			}
			layer->next = layer->end = layer->start;
			count = host_read(perl->exchange, (uint64_t) layer->position, layer->start, layer->room);
		}
	}
	if (count <= 0) {
		PerlIOBase(f)->flags |= count < 0 ? PERLIO_F_ERROR : PERLIO_F_EOF;
		return -1;
	}
	layer->end = layer->start + count;
	PerlIOBase(f)->flags |= PERLIO_F_RDBUF;
	return 0;
}

static IV input_seek(pTHX_ PerlIO *f, Off_t offset, int whence)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	if (whence == SEEK_CUR) {
		offset += layer->position + (layer->next - layer->start);
	} else if (whence == SEEK_END) {
		if (layer->length < 0) {
			errno = ESPIPE;
			return -1;
		}
		offset += layer->length;
	}
	if (offset < 0) {
		errno = EINVAL;
		return -1;
	}
	Off_t end = layer->position + (layer->end - layer->start);
	if (offset >= layer->position && offset <= end) {
		layer->next = layer->start + (offset - layer->position);
	} else if (layer->body == TUTTI_BODY_STREAM) {
		errno = ESPIPE;
		return -1;
	} else if (layer->body == TUTTI_BODY_SPOOL) {
		layer->position = offset;
		layer->next = layer->end = layer->start;
	} else {
		layer->next = layer->end;
	}
	PerlIOBase(f)->flags &= ~PERLIO_F_EOF;
	return 0;
}

static Off_t input_tell(pTHX_ PerlIO *f)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	return layer->position + (layer->next - layer->start);
}

static IV input_eof(pTHX_ PerlIO *f)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	if (layer->next < layer->end) {
		return 0;
	}
	return PerlIOBase_eof(aTHX_ f);
}

static STDCHAR *input_base(pTHX_ PerlIO *f)
{
	return PerlIOSelf(f, input_layer)->start;
}

static Size_t input_size(pTHX_ PerlIO *f)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	return (Size_t) (layer->end - layer->start);
}

static STDCHAR *input_next(pTHX_ PerlIO *f)
{
	return PerlIOSelf(f, input_layer)->next;
}

static SSize_t input_count(pTHX_ PerlIO *f)
{
	input_layer *layer = PerlIOSelf(f, input_layer);
	return layer->end - layer->next;
}

static void input_set(pTHX_ PerlIO *f, STDCHAR *next, SSize_t count)
{
	PERL_UNUSED_ARG(count);
	if (next) {
		PerlIOSelf(f, input_layer)->next = next;
	}
}

static const PerlIO_funcs input_table = {
	.fsize = sizeof(PerlIO_funcs), .name = "tutti_input", .size = sizeof(input_layer),
	.kind = PERLIO_K_BUFFERED | PERLIO_K_RAW | PERLIO_K_FASTGETS,
	.Pushed = input_pushed, .Popped = input_popped, .Binmode = PerlIOBase_binmode, .Fileno = input_fileno,
	.Dup = input_dup, .Read = PerlIOBase_read, .Unread = PerlIOBase_unread, .Seek = input_seek, .Tell = input_tell,
	.Close = PerlIOBase_close, .Flush = PerlIOBase_noop_ok, .Fill = input_fill, .Eof = input_eof, .Error = PerlIOBase_error,
	.Clearerr = PerlIOBase_clearerr, .Setlinebuf = PerlIOBase_setlinebuf, .Get_base = input_base, .Get_bufsiz = input_size,
	.Get_ptr = input_next, .Get_cnt = input_count, .Set_ptrcnt = input_set,
};

/* The errors layer: whole lines to the log. */
static void log_message(pTHX_ SV *message)
{
	STRLEN len;
	const char *text = SvPV_const(message, len);
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
		len--;
	}
	if (len > 0) {
		host_log(TUTTI_LOG_ERROR, text, len);
	}
	SvCUR_set(message, 0);
}

static SSize_t errors_write(pTHX_ PerlIO *f, const void *data, Size_t len)
{
	tutti_perl *perl = tutti_current;
	PERL_UNUSED_ARG(f);
	if (!perl || perl->interpreter != aTHX) {
		host_log(TUTTI_LOG_ERROR, data, len);
	} else if (len > 0) {
		sv_catpvn_nomg(perl->message, data, len);
		if (((const char *) data)[len - 1] == '\n') {
			log_message(aTHX_ perl->message);
		}
	}
	return (SSize_t) len;
}

/* The number of standard error, whose lines go to the log as well. */
static IV errors_fileno(pTHX_ PerlIO *f)
{
	PERL_UNUSED_ARG(f);
	return STDERR_FILENO;
}

static const PerlIO_funcs errors_table = {
	.fsize = sizeof(PerlIO_funcs), .name = "tutti_errors", .size = sizeof(struct _PerlIO), .kind = PERLIO_K_RAW,
	.Pushed = input_pushed, .Popped = PerlIOBase_noop_ok, .Binmode = PerlIOBase_binmode, .Fileno = errors_fileno,
	.Dup = PerlIOBase_dup, .Write = errors_write, .Close = PerlIOBase_close, .Flush = PerlIOBase_noop_ok,
	.Eof = PerlIOBase_eof, .Error = PerlIOBase_error, .Clearerr = PerlIOBase_clearerr, .Setlinebuf = PerlIOBase_setlinebuf,
};

void tutti_handles_define(pTHX)
{
	PerlIO_define_layer(aTHX_ (PerlIO_funcs *) &input_table);
	PerlIO_define_layer(aTHX_ (PerlIO_funcs *) &errors_table);
}

/* A nameless glob, as IO::Handle makes it, with a file on top of a layer. */
static GV *open_glob(pTHX_ const PerlIO_funcs *table, const char *name, char type, PerlIO **file)
{
	GV *glob = (GV *) newSV_type(SVt_NULL);
	gv_init_pvn(glob, gv_stashpvs("Tutti::Handle", GV_ADD), name, strlen(name), 0);
	IO *io = GvIOn(glob);
	PerlIO *f = PerlIO_allocate(aTHX);
	f = PerlIO_push(aTHX_ f, (PerlIO_funcs *) table, type == IoTYPE_RDONLY ? "r" : "w", NULL);
	IoTYPE(io) = type;
	IoIFP(io) = f;
	if (type == IoTYPE_WRONLY) {
		IoOFP(io) = f;
	}
	*file = f;
	return glob;
}

/* True if no other code holds the glob, and it is as we made it. */
static bool is_reusable(pTHX_ GV *glob, PerlIO *file, const PerlIO_funcs *table)
{
	if (!glob || SvREFCNT(glob) != 1 || SvOBJECT(glob) || SvTYPE(glob) != SVt_PVGV || !GvGP(glob) || !GvIOp(glob)) {
		return false;
	}
	IO *io = GvIOp(glob);
	return SvREFCNT(io) == 1 && !SvMAGICAL(io) && IoIFP(io) == file && PerlIOValid(file) && PerlIOBase(file)->tab == (PerlIO_funcs *) table
		&& !GvSV(glob) && !GvAV(glob) && !GvHV(glob);
}

SV *tutti_input(pTHX_ tutti_perl *perl)
{
	const tutti_request *request = perl->request;
	if (!is_reusable(aTHX_ perl->input, perl->input_file, &input_table)) {
		SvREFCNT_dec((SV *) perl->input);
		perl->input = open_glob(aTHX_ &input_table, "input", IoTYPE_RDONLY, &perl->input_file);
	}
	PerlIO *f = perl->input_file;
	input_layer *layer = PerlIOSelf(f, input_layer);
	PerlIOBase(f)->flags &= ~(PERLIO_F_EOF | PERLIO_F_ERROR | PERLIO_F_UTF8 | PERLIO_F_CRLF | PERLIO_F_RDBUF);
	IoLINES(GvIOp(perl->input)) = 0;
	close_descriptor(layer);
	layer->serial = perl->serial;
	layer->body = request->body;
	layer->position = 0;
	layer->length = request->body == TUTTI_BODY_NONE ? 0 : (Off_t) request->content_length;
	Size_t len = 0;
	if (request->body == TUTTI_BODY_INLINE) {
		len = request->inline_body.len;
		layer->length = (Off_t) len;
		if (len > layer->room) {
			Renew(layer->start, len, STDCHAR);
			layer->room = len;
		}
		if (len > 0) {
			Copy(request->inline_body.data, layer->start, len, STDCHAR);
		}
	}
	layer->next = layer->start;
	layer->end = layer->start + len;
	return newRV_inc((SV *) perl->input);
}

SV *tutti_errors(pTHX_ tutti_perl *perl)
{
	if (!is_reusable(aTHX_ perl->errors, perl->errors_file, &errors_table)) {
		SvREFCNT_dec((SV *) perl->errors);
		perl->errors = open_glob(aTHX_ &errors_table, "errors", IoTYPE_WRONLY, &perl->errors_file);
	}
	PerlIOBase(perl->errors_file)->flags &= ~(PERLIO_F_ERROR | PERLIO_F_UTF8 | PERLIO_F_CRLF);
	return newRV_inc((SV *) perl->errors);
}

void tutti_errors_flush(pTHX_ tutti_perl *perl)
{
	if (SvCUR(perl->message) > 0) {
		log_message(aTHX_ perl->message);
	}
}
