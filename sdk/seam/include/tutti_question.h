/* "Where are you?" (crates/worker, WHERE_SIGNAL), for interpreters that run in one thread: how the question is heard, and how the answer is read.
 *
 * A signal handler would run in the interpreter's thread, and end its sleep(), select() or poll() early: system calls that the kernel does not
 * resume, SA_RESTART or not (signal(7)). So a thread of its own takes the signal, which all others block. It asks the interpreter by the flag that
 * its loop looks at. One that waits inside C never gets there: then the thread reads the stack itself. That may change meanwhile, so memory
 * is read through the kernel, which fails where there is none. Must never: change what the interpreter does, or crash it.
 *
 * Included by one file of each host.
 */
#ifndef TUTTI_QUESTION_H
#define TUTTI_QUESTION_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* So long the interpreter has to get to its flag: it looks at it with each call and jump. */
#define TUTTI_ANSWER_MS 20
/* Enough for a loop over memory and conversions; glibc's least is 16 KiB. */
#define TUTTI_QUESTION_STACK (128 * 1024)

static int tutti_question_signal;
static void (*tutti_answer)(void);
/* The kernel reads what is written into a pipe: EFAULT in place of a crash. */
static int tutti_peek_pipe[2];
/* Held while an answer is read and written: the interpreter may be at one when the next question comes. */
static pthread_mutex_t tutti_answering = PTHREAD_MUTEX_INITIALIZER;

/* Copies memory that may be gone; false where any of it is. At most PIPE_BUF bytes; only with the lock. */
static inline bool tutti_peek(void *to, const void *from, size_t len)
{
	ssize_t count = write(tutti_peek_pipe[1], from, len);
	ssize_t got = count > 0 ? read(tutti_peek_pipe[0], to, (size_t) count) : 0;
	return count > 0 && got == count && (size_t) got == len;
}

/* Copies a string, as far as there is room. */
static inline void tutti_peek_text(char *to, size_t room, const char *from)
{
	size_t len = 0;
	while (from && len + 1 < room && tutti_peek(to + len, from + len, 1) && to[len]) {
		len++;
	}
	to[len] = '\0';
}

/* Waits until the interpreter has taken the question back, which is its answer; else the question is taken from it. True: the interpreter has not answered. */
static bool tutti_is_unanswered(atomic_bool *asked)
{
	const struct timespec pause = { .tv_nsec = 1000 * 1000 };
	for (int waited = 0; waited < TUTTI_ANSWER_MS && atomic_load(asked); waited++) {
		nanosleep(&pause, NULL);
	}
	return atomic_exchange(asked, false);
}

static void *tutti_hear_questions(void *argument)
{
	sigset_t wanted;
	(void) argument;
	sigemptyset(&wanted);
	sigaddset(&wanted, tutti_question_signal);
	for (;;) {
		if (sigwaitinfo(&wanted, NULL) == tutti_question_signal) {
			tutti_answer();
		}
	}
	return NULL;
}

/* A process that the application forks has no such thread, and may wait for the signal itself. */
static void tutti_unblock_question(void)
{
	sigset_t question;
	sigemptyset(&question);
	sigaddset(&question, tutti_question_signal);
	pthread_sigmask(SIG_UNBLOCK, &question, NULL);
}

/* To be called in each worker, before it has threads. A process that cannot have one more goes on, and does not answer. */
static void tutti_question_start(int signal, void (*answer)(void))
{
	pthread_t thread;
	pthread_attr_t attributes;
	sigset_t all, before;
	tutti_question_signal = signal;
	tutti_answer = answer;
	if (pipe2(tutti_peek_pipe, O_CLOEXEC) != 0) {
		return;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, TUTTI_QUESTION_STACK);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attributes, tutti_hear_questions, NULL) == 0) {
		/* The kernel then gives it to the thread that waits for it. */
		sigaddset(&before, signal);
		pthread_atfork(NULL, NULL, tutti_unblock_question);
	}
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif
