/* The life of an interpreter, and of one request in it: start, load, serve, end. Every jump of perl's (die, exit) ends here. */

#include "internal.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

EXTERN_C void boot_DynaLoader(pTHX_ CV *cv);

/* Loads the script as plackup does; see docs/languages/perl.md. Nothing of it runs for a request. */
static const char LOADER[] =
	"package Tutti::Loader;\n"
	"use strict; use warnings;\n"
	"use Carp (); use IO::Handle (); use IO::File (); use Scalar::Util ();\n"
	"sub evaluate { package Tutti::Application; do $_[0] }\n"
	"sub load {\n"
	"    my ($file) = @_;\n"
	"    open my $probe, '<', $file or die \"cannot read `$file`: $!\\n\";\n"
	"    close $probe;\n"
	"    $0 = $file;\n"
	"    @ARGV = ();\n"
	"    $ENV{PLACK_ENV} = 'deployment' unless defined $ENV{PLACK_ENV};\n"
	"    undef $@;\n"
	"    my $app = evaluate($file);\n"
	"    die $@ if !defined $app && $@;\n"
	"    $app = $app->to_app if Scalar::Util::blessed($app) && Scalar::Util::reftype($app) ne 'CODE' && $app->can('to_app');\n"
	"    require overload;\n"
	"    my $is_code = ref $app && (Scalar::Util::reftype($app) eq 'CODE' || overload::Method($app, '&{}'));\n"
	"    die \"the script `$file` returns no application: its last statement must give a code reference\\n\" unless $is_code;\n"
	"    $Tutti::Loader::application = $app;\n"
	"    return;\n"
	"}\n"
	"sub text { my $text = eval { \"$_[0]\" }; defined $text ? $text : 'an exception that cannot be printed' }\n"
	"1;\n";

/* `$^X` is perl's own program, as for every script, and not the host: tools start it to ask for settings. */
static XS(xs_name_program)
{
	/* `STARTPERL` is `#!` and the path that perl was installed to. */
	const char *program = STARTPERL + 2;
	dXSARGS;
	PERL_UNUSED_VAR(items);

	if (access(program, X_OK) == 0) {
		sv_setpv(get_sv("\030", GV_ADD), program);
	}
	XSRETURN_EMPTY;
}

/* The modules that have no file; `-MTutti::Program` comes before those of PERL5OPT. */
static void define_modules(pTHX)
{
	newXS("DynaLoader::boot_DynaLoader", boot_DynaLoader, __FILE__);
	newXS("Tutti::Program::import", xs_name_program, __FILE__);
	(void) hv_stores(GvHVn(PL_incgv), "Tutti/Program.pm", newSVpvs(__FILE__));
}

/* A process that the application forks has no request: the one it sees is its parent's. */
static void after_fork(void)
{
	tutti_is_forked = 1;
	if (tutti_current) {
		tutti_current->exchange = NULL;
	}
}

static char *copy_text(pTHX_ SV *value)
{
	STRLEN len;
	const char *text = SvPV_const(value, len);
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' ')) {
		len--;
	}
	char *copy = malloc(len + 1);
	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

/* An exception as a text. Its own code may run for it, and may die. */
static SV *text_of(pTHX_ SV *error)
{
	if (!SvROK(error)) {
		return error;
	}
	dSP;
	SV *kept = sv_2mortal(newSVsv(error));
	PUSHMARK(SP);
	XPUSHs(kept);
	PUTBACK;
	int count = call_pv("Tutti::Loader::text", G_SCALAR | G_EVAL);
	SPAGAIN;
	SV *text = count > 0 ? POPs : &PL_sv_no;
	PUTBACK;
	return text;
}

static void log_error(pTHX_ SV *error, const char *while_doing)
{
	SV *text = text_of(aTHX_ error);
	SV *line = sv_2mortal(newSVpvf("%s%" SVf, while_doing, SVfARG(text)));
	STRLEN len;
	const char *bytes = SvPV_const(line, len);
	while (len > 0 && bytes[len - 1] == '\n') {
		len--;
	}
	host_log(TUTTI_LOG_ERROR, bytes, len);
}

/* Runs inside an eval: whatever dies in it is caught in `serve`. */
XS_INTERNAL(xs_handle)
{
	dXSARGS;
	tutti_perl *perl = tutti_current;
	PERL_UNUSED_VAR(items);
	SV *environ = sv_2mortal(tutti_environ(aTHX_ perl));
	SP -= items;
	PUSHMARK(SP);
	XPUSHs(environ);
	PUTBACK;
	int count = call_sv(perl->application, G_SCALAR);
	SPAGAIN;
	SV *response = count > 0 ? POPs : &PL_sv_undef;
	PUTBACK;
	if (tutti_is_forked) {
		my_exit(0);
	}
	tutti_send_answer(aTHX_ perl, response);
	perl->is_done = true;
	XSRETURN_EMPTY;
}

static void prepare(pTHX_ tutti_perl *perl)
{
	tutti_request_prepare(aTHX_ perl);
	tutti_streaming_define(aTHX_ perl);
	/* A clone has it already. */
	perl->handler = get_cv("Tutti::handle", 0);
	if (!perl->handler) {
		perl->handler = newXS("Tutti::handle", xs_handle, __FILE__);
	}
	SvREFCNT_inc((SV *) perl->handler);
	perl->next = tutti_first;
	tutti_first = perl;
}

static void find_application(pTHX_ tutti_perl *perl)
{
	perl->application = get_sv("Tutti::Loader::application", GV_ADD);
}

tutti_perl *tutti_perl_new(int multithread, int multiprocess, char **message)
{
	/* perl writes into these when a script sets $0. */
	static char name[] = "tutti", module[] = "-MTutti::Program", option[] = "-e", program[] = "0";
	static char *arguments[] = { name, module, option, program, NULL };
	static bool is_begun;
	int count = 4;
	char **argv = arguments;
	char **env = environ;

	if (!is_begun) {
		is_begun = true;
		PERL_SYS_INIT3(&count, &argv, &env);
		pthread_atfork(NULL, NULL, after_fork);
	}
	tutti_perl *perl = calloc(1, sizeof(tutti_perl));
	PerlInterpreter *my_perl = perl_alloc();
	*message = NULL;
	if (!perl || !my_perl) {
		free(perl);
		return NULL;
	}
	perl->interpreter = my_perl;
	perl->multithread = multithread;
	perl->multiprocess = multiprocess;
	PERL_SET_CONTEXT(my_perl);
	PL_perl_destruct_level = 0;
	perl_construct(my_perl);
	PL_exit_flags |= PERL_EXIT_DESTRUCT_END;
	tutti_current = perl;
	if (perl_parse(my_perl, define_modules, count, argv, NULL) != 0 || perl_run(my_perl) != 0) {
		return NULL;
	}
	/* The title of the process is not perl's: a script that sets $0 must not write over it. */
	PL_origalen = 1;
	tutti_handles_define(aTHX);
	eval_pv(LOADER, FALSE);
	if (SvTRUE(ERRSV)) {
		*message = copy_text(aTHX_ ERRSV);
		return NULL;
	}
	prepare(aTHX_ perl);
	find_application(aTHX_ perl);
	return perl;
}

int tutti_perl_load(tutti_perl *perl, const char *script, char **message)
{
	dTHXa(perl->interpreter);
	volatile int result = -1;
	int jump;
	dJMPENV;

	*message = NULL;
	JMPENV_PUSH(jump);
	if (jump == 0) {
		dSP;
		ENTER;
		SAVETMPS;
		PUSHMARK(SP);
		XPUSHs(newSVpvn_flags(script, strlen(script), SVs_TEMP));
		PUTBACK;
		call_pv("Tutti::Loader::load", G_EVAL | G_DISCARD | G_VOID);
		if (SvTRUE(ERRSV)) {
			*message = copy_text(aTHX_ text_of(aTHX_ ERRSV));
		} else {
			result = 0;
		}
		FREETMPS;
		LEAVE;
	} else {
		SV *text = newSVpvf("the script `%s` ended the process: exit(%d)", script, (int) STATUS_EXIT);
		*message = copy_text(aTHX_ text);
		SvREFCNT_dec(text);
	}
	JMPENV_POP;
	if (tutti_is_forked) {
		/* A child that the script forked and that has come to the script's end. */
		perl_destruct(perl->interpreter);
		_exit(0);
	}
	find_application(aTHX_ perl);
	return result;
}

tutti_perl *tutti_perl_clone(tutti_perl *original)
{
#ifdef USE_ITHREADS
	tutti_perl *perl = calloc(1, sizeof(tutti_perl));
	if (!perl) {
		return NULL;
	}
	PERL_SET_CONTEXT(original->interpreter);
	PerlInterpreter *my_perl = perl_clone(original->interpreter, 0);
	perl->interpreter = my_perl;
	perl->multithread = original->multithread;
	perl->multiprocess = original->multiprocess;
	PERL_SET_CONTEXT(my_perl);
	/* As with perl's own threads, END blocks are the first interpreter's alone. */
	SvREFCNT_dec((SV *) PL_endav);
	PL_endav = NULL;
	prepare(aTHX_ perl);
	find_application(aTHX_ perl);
	PERL_SET_CONTEXT(original->interpreter);
	return perl;
#else
	PERL_UNUSED_VAR(original);
	return NULL;
#endif
}

/* In the thread that is to use it. */
void tutti_perl_enter(tutti_perl *perl)
{
	PERL_SET_CONTEXT(perl->interpreter);
	tutti_current = perl;
	tutti_where_prepare(perl);
}

void tutti_perl_worker_started(tutti_perl *perl)
{
	dTHXa(perl->interpreter);
	tutti_is_forked = 0;
	/* A preloaded script may have drawn numbers: each worker must draw its own. */
	PL_srand_called = FALSE;
}

/* Something went wrong while the request was served: as good an answer as can still be given. */
static void give_up(tutti_perl *perl)
{
	if (!perl->exchange || perl->is_ended) {
		return;
	}
	if (!perl->is_started) {
		perl->is_started = perl->is_ended = true;
		host_answer_500(perl->exchange);
	} else {
		perl->is_ended = true;
		host_abort(perl->exchange);
	}
}

static void run_cleanup(pTHX_ HV *environ, AV *handlers)
{
	/* A handler may add others. */
	for (SSize_t i = 0; i <= av_len(handlers); i++) {
		SV **handler = av_fetch(handlers, i, 0);
		if (!handler) {
			continue;
		}
		dSP;
		ENTER;
		SAVETMPS;
		PUSHMARK(SP);
		XPUSHs(sv_2mortal(newRV_inc((SV *) environ)));
		PUTBACK;
		call_sv(sv_mortalcopy(*handler), G_EVAL | G_DISCARD | G_VOID);
		if (SvTRUE(ERRSV)) {
			log_error(aTHX_ ERRSV, "in a cleanup handler: ");
		}
		FREETMPS;
		LEAVE;
	}
}

/* Calls the handlers that the application has left in the environ for after the answer. True if the worker is to leave. */
static bool after_answer(pTHX_ tutti_perl *perl)
{
	HV *environ = perl->environ;
	bool leaves = false;
	if (!environ) {
		return false;
	}
	SV *key = perl->keys[KEY_CLEANUP_HANDLERS];
	HE *found = hv_fetch_ent(environ, key, 0, SvSHARED_HASH(key));
	if (found && SvROK(HeVAL(found)) && SvTYPE(SvRV(HeVAL(found))) == SVt_PVAV) {
		AV *handlers = (AV *) SvRV(HeVAL(found));
		if (av_len(handlers) >= 0) {
			run_cleanup(aTHX_ environ, (AV *) sv_2mortal(SvREFCNT_inc((SV *) handlers)));
		}
	}
	key = perl->keys[KEY_HARAKIRI_COMMIT];
	found = hv_fetch_ent(environ, key, 0, SvSHARED_HASH(key));
	if (found) {
		leaves = cBOOL(SvTRUE(HeVAL(found)));
	}
	return leaves;
}

static void handle(pTHX_ tutti_perl *perl)
{
	dSP;
	PUSHMARK(SP);
	PUTBACK;
	call_sv((SV *) perl->handler, G_EVAL | G_DISCARD | G_VOID);
	/* Not by $@: an exception may be false. */
	if (!perl->is_done) {
		if (SvROK(ERRSV) || strNE(SvPV_nolen(ERRSV), tutti_gone)) {
			log_error(aTHX_ ERRSV, "");
		}
		give_up(perl);
	}
}

static void end_forked(tutti_perl *perl, int status)
{
	PerlInterpreter *my_perl = perl->interpreter;
	PERL_UNUSED_VAR(my_perl);
	int after = perl_destruct(perl->interpreter);
	_exit(after ? after : status);
}

/* `exit` in the application: it ends the worker, but not without an answer. */
static void log_exit(tutti_perl *perl, int status)
{
	char text[200];
	int len;
	if (perl->is_ended) {
		/* The request is the router's again. */
		if (status == 0) {
			return;
		}
		len = snprintf(text, sizeof text, "the application called exit(%d) after its answer", status);
	} else {
		const tutti_request *request = perl->request;
		len = snprintf(text, sizeof text, "the application called exit(%d) instead of answering `%.*s %.*s`", status,
			(int) request->method.len, request->method.data, request->target.len < 80 ? (int) request->target.len : 80, request->target.data);
	}
	host_log(TUTTI_LOG_ERROR, text, (size_t) len < sizeof text ? (size_t) len : sizeof text - 1);
}

int tutti_perl_serve(tutti_perl *perl, const tutti_request *request, void *exchange)
{
	dTHXa(perl->interpreter);
	volatile int result = TUTTI_SERVED;
	int jump;
	dJMPENV;

	perl->request = request;
	perl->exchange = exchange;
	perl->serial++;
	perl->is_started = perl->is_ended = perl->is_done = false;
	perl->is_head = request->method.len == 4 && memEQ(request->method.data, "HEAD", 4);
	JMPENV_PUSH(jump);
	if (jump == 0) {
		ENTER;
		SAVETMPS;
		handle(aTHX_ perl);
		if (!tutti_is_forked && after_answer(aTHX_ perl)) {
			result = TUTTI_RECYCLE;
		}
		FREETMPS;
		LEAVE;
		tutti_environ_release(aTHX_ perl);
	}
	JMPENV_POP;
	tutti_errors_flush(aTHX_ perl);
	if (jump != 0) {
		int status = (int) STATUS_EXIT;
		if (tutti_is_forked) {
			end_forked(perl, status);
		}
		log_exit(perl, status);
		give_up(perl);
		result = TUTTI_RECYCLE;
	} else if (tutti_is_forked) {
		end_forked(perl, 0);
	}
	perl->exchange = NULL;
	perl->request = NULL;
	return result;
}

void tutti_perl_end(tutti_perl *perl)
{
	tutti_perl_enter(perl);
	perl_destruct(perl->interpreter);
	/* The process ends: perl's memory is not worth taking apart. */
	tutti_current = NULL;
}
