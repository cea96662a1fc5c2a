/* "Where are you?" (crates/worker, WHERE_SIGNAL): the place in the script, written from the signal handler itself, because ruby's own handlers
 * run only between two instructions and never get there from within C (a database driver that waits).
 *
 * The signal comes to any thread; each that serves is sent it again, since a thread's frames are read by itself: `rb_profile_frames` is
 * made for signal handlers and takes no memory. A process that crashes here was to be killed anyway.
 */

#include "internal.h"
#include <errno.h>
#include <ruby/debug.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_FRAMES 64
#define MOST_CALLERS 10

static const char *string(VALUE value, const char *otherwise)
{
	return RB_TYPE_P(value, T_STRING) ? RSTRING_PTR(value) : otherwise;
}

static size_t describe(char *text, size_t room)
{
	VALUE frames[MOST_FRAMES];
	int lines[MOST_FRAMES];
	/* snprintf of strings and integers takes no lock and no memory in glibc. */
	int count = snprintf(text, room, "process %d is at ", (int) getpid());
	size_t len = (size_t) count;
	int found = rb_profile_frames(0, MOST_FRAMES, frames, lines);
	int callers = -1;
	for (int i = 0; i < found && callers < MOST_CALLERS; i++) {
		VALUE path = rb_profile_frame_path(frames[i]);
		if (!RB_TYPE_P(path, T_STRING)) {
			continue;
		}
		const char *format = callers < 0 ? "%s:%d in %s\n" : "  called at %s:%d in %s\n";
		VALUE label = rb_profile_frame_label(frames[i]);
		count = snprintf(text + len, room - len, format, string(path, "?"), lines[i], string(label, "?"));
		if (count < 0 || (size_t) count >= room - len) {
			break;
		}
		len += (size_t) count;
		callers++;
	}
	if (callers < 0) {
		count = snprintf(text + len, room - len, "no Ruby code\n");
		len += (size_t) count;
	}
	return len;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	char text[4096];
	int kept = errno;
	bool is_ours = info->si_code == SI_TKILL && info->si_pid == getpid();
	for (tutti_thread *thread = tutti_first; thread; thread = thread->next) {
		if (!thread->request) {
			continue;
		}
		if (!is_ours) {
			pthread_kill(thread->native, number);
		} else if (pthread_equal(thread->native, pthread_self())) {
			size_t len = describe(text, sizeof text);
			if (write(STDERR_FILENO, text, len) < 0) {
				break;
			}
		}
	}
	errno = kept;
}

void tutti_ruby_catch_where(int signal)
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = on_signal;
	action.sa_flags = SA_RESTART | SA_SIGINFO;
	sigaction(signal, &action, NULL);
}
