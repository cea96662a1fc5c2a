/* "Where are you?" (crates/worker, WHERE_SIGNAL): the place in the script, on standard error.
 *
 * A script in its own code answers between two instructions, where perl looks for signals (PL_signalhook). One that waits inside C (sleep, a
 * database driver) never gets there: then the thread that heard the question answers (tutti_question.h). Either way every pointer is read with
 * care.
 */

#include "internal.h"
#include "tutti_question.h"
#include <stdio.h>

#define MOST_CALLERS 10
/* More contexts than this, of blocks and loops too, are not looked at. */
#define MOST_CONTEXTS 500
/* Longest name that is shown. */
#define NAME_BYTES 512

static bool add(char *text, size_t room, size_t *len, const char *format, const COP *place, const char *function)
{
	char file[NAME_BYTES];
	tutti_peek_text(file, sizeof file, CopFILE(place));
	/* snprintf of strings and integers takes no lock and no memory in glibc. */
	int count = snprintf(text + *len, room - *len, format, *file ? file : "?", (unsigned long) CopLINE(place), function);
	if (count < 0 || (size_t) count >= room - *len) {
		return false;
	}
	*len += (size_t) count;
	return true;
}

static void name_of(char *name, size_t room, const PERL_CONTEXT *context)
{
	CV cv;
	XPVCV body;
	GV gv;
	XPVGV names;
	const HEK *key = NULL;
	strcpy(name, "main");
	if (!context->blk_sub.cv || !tutti_peek(&cv, context->blk_sub.cv, sizeof cv) || !tutti_peek(&body, cv.sv_any, sizeof body)) {
		return;
	}
	strcpy(name, "__ANON__");
	if (body.xcv_flags & CVf_NAMED) {
		key = body.xcv_gv_u.xcv_hek;
	} else if (tutti_peek(&gv, body.xcv_gv_u.xcv_gv, sizeof gv) && isGV_with_GP(&gv) && tutti_peek(&names, gv.sv_any, sizeof names)) {
		key = names.xiv_u.xivu_namehek;
	}
	if (key) {
		tutti_peek_text(name, room, HEK_KEY(key));
	}
}

static size_t describe(tutti_perl *perl, char *text, size_t room)
{
	dTHXa(perl->interpreter);
	const char *format = "%s:%lu in %s\n";
	char name[NAME_BYTES];
	COP place;
	PERL_SI stack;
	PERL_CONTEXT context;
	int callers = -1, seen = 0;
	int count = snprintf(text, room, "process %d is at ", (int) getpid());
	size_t len = count > 0 ? (size_t) count : 0;
	if (!tutti_peek(&place, PL_curcop, sizeof place)) {
		return 0;
	}
	for (const PERL_SI *at = PL_curstackinfo; at && tutti_peek(&stack, at, sizeof stack); at = stack.si_prev) {
		for (I32 i = stack.si_cxix; i >= 0 && callers < MOST_CALLERS && seen < MOST_CONTEXTS; i--, seen++) {
			if (!tutti_peek(&context, &stack.si_cxstack[i], sizeof context)) {
				break;
			}
			if (CxTYPE(&context) != CXt_SUB) {
				continue;
			}
			name_of(name, sizeof name, &context);
			if (!add(text, room, &len, format, &place, name)) {
				return len;
			}
			format = "  called at %s:%lu in %s\n";
			callers++;
			if (!tutti_peek(&place, context.blk_oldcop, sizeof place)) {
				return len;
			}
		}
	}
	if (callers < 0) {
		add(text, room, &len, format, &place, "main");
	}
	return len;
}

static void tell(tutti_perl *perl)
{
	char text[4096];
	pthread_mutex_lock(&tutti_answering);
	size_t len = describe(perl, text, sizeof text);
	/* Where standard error does not take it nothing can be said. */
	ssize_t written = write(STDERR_FILENO, text, len);
	(void) written;
	pthread_mutex_unlock(&tutti_answering);
}

/* Called by perl between two instructions when it has to look for signals. */
static void on_pending(pTHX)
{
	tutti_perl *perl = tutti_current;
	if (perl && atomic_exchange(&perl->is_asked, false)) {
		tell(perl);
	}
	Perl_despatch_signals(aTHX);
}

/* In the thread that hears questions. Which interpreter is meant is not known: the answer names each that serves. */
static void answer_question(void)
{
	for (tutti_perl *perl = tutti_first; perl; perl = perl->next) {
		if (!perl->exchange) {
			continue;
		}
		dTHXa(perl->interpreter);
		atomic_store(&perl->is_asked, true);
		PL_sig_pending = 1;
		if (tutti_is_unanswered(&perl->is_asked)) {
			tell(perl);
		}
	}
}

void tutti_where_prepare(tutti_perl *perl)
{
	dTHXa(perl->interpreter);
	PL_signalhook = on_pending;
}

void tutti_perl_hear_questions(int signal)
{
	tutti_question_start(signal, answer_question);
}
