/* "Where are you?" (crates/worker, WHERE_SIGNAL): the place in the script, written from the signal handler itself, because perl's own handlers run
 * only between two instructions and never get there from within C (a database driver that waits).
 *
 * The memory that is read may be changing at this moment: every pointer is looked at once, and a process that crashes here was to be killed anyway.
 */

#include "internal.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_CALLERS 10

static int add(char *text, size_t room, size_t *len, const char *format, const char *file, unsigned long line, const char *function)
{
	/* snprintf of strings and integers takes no lock and no memory in glibc. */
	int count = snprintf(text + *len, room - *len, format, file ? file : "?", line, function ? function : "main");
	if (count < 0 || (size_t) count >= room - *len) {
		return 0;
	}
	*len += (size_t) count;
	return 1;
}

static const char *name_of(pTHX_ const PERL_CONTEXT *context)
{
	CV *cv = context->blk_sub.cv;
	if (!cv || CvNAMED(cv)) {
		return cv ? HEK_KEY(CvNAME_HEK(cv)) : NULL;
	}
	GV *gv = CvGV(cv);
	return gv && isGV_with_GP(gv) ? GvNAME(gv) : "__ANON__";
}

static size_t describe(tutti_perl *perl, char *text, size_t room)
{
	dTHXa(perl->interpreter);
	const COP *place = PL_curcop;
	size_t len = 0;
	int callers = -1;
	int count = snprintf(text, room, "process %d is at ", (int) getpid());
	len = count > 0 ? (size_t) count : 0;
	for (const PERL_SI *stack = PL_curstackinfo; stack && place; stack = stack->si_prev) {
		for (I32 i = stack->si_cxix; i >= 0 && place && callers < MOST_CALLERS; i--) {
			const PERL_CONTEXT *context = &stack->si_cxstack[i];
			if (CxTYPE(context) != CXt_SUB) {
				continue;
			}
			const char *format = callers < 0 ? "%s:%lu in %s\n" : "  called at %s:%lu in %s\n";
			if (!add(text, room, &len, format, CopFILE(place), (unsigned long) CopLINE(place), name_of(aTHX_ context))) {
				return len;
			}
			callers++;
			place = context->blk_oldcop;
		}
	}
	if (callers < 0 && place) {
		add(text, room, &len, "%s:%lu in %s\n", CopFILE(place), (unsigned long) CopLINE(place), "main");
	}
	return len;
}

static void on_signal(int number)
{
	char text[4096];
	int kept = errno;
	PERL_UNUSED_VAR(number);
	/* Any thread may get the signal: each is told of that has a request. */
	for (tutti_perl *perl = tutti_first; perl; perl = perl->next) {
		if (!perl->exchange) {
			continue;
		}
		size_t len = describe(perl, text, sizeof text);
		if (len > 0 && write(STDERR_FILENO, text, len) < 0) {
			break;
		}
	}
	errno = kept;
}

void tutti_perl_catch_where(int signal)
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(signal, &action, NULL);
}
