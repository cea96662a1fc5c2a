/* max_execution_time and max_input_time with one system call a request in place of five.
 *
 * libphp calls zend_set_timeout() and zend_unset_timeout() through its symbol table, so those of the executable, which are found first, take
 * their place. What a script can see is the same: CPU time from the start of the script, the same error, the same hard limit. Saved are
 * - the signal handler: PHP installs it anew at each request (sigaction, sigprocmask); here once, and again when PHP has replaced it;
 * - the timer for the input of a request that has none to parse;
 * - switching the timer off at the end: a signal that comes when no script runs is ignored, and the next script sets it anew.
 *
 * Where libphp does not call through its symbol table these functions are never called, and all is as PHP does it.
 */

#define _GNU_SOURCE
#include "internal.h"
#include <zend_signal.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/time.h>

static void (*php_set_timeout)(zend_long seconds, bool reset_signals);
static void (*php_unset_timeout)(void);
static void (*php_handler)(int signal);

/* PHP's handler is known: these functions may do the work. */
static bool usable;
/* The kernel calls on_time() on SIGPROF. */
static bool installed;
/* A script runs under a limit. */
static volatile sig_atomic_t armed;

bool tutti_nothing_to_parse;

static void on_time(int signal)
{
	if (armed) {
		/* PHP sets its own handler and timer from here on (hard_timeout, zend_timeout). */
		installed = false;
		php_handler(signal);
	}
}

#ifdef ZEND_SIGNALS
static void prepare_handler(void)
{
	/* zend_signal_activate() forgets it at each request. */
	SIGG(handlers)[SIGPROF - 1].flags = 0;
	SIGG(handlers)[SIGPROF - 1].handler = (void *) on_time;
}
#endif

/* pcntl_signal() may take SIGPROF: PHP takes it back at the next request, so must we. */
static zif_handler php_pcntl_signal;

static PHP_FUNCTION(noting_pcntl_signal)
{
	installed = false;
	php_pcntl_signal(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void look_up(void)
{
	php_set_timeout = (void (*)(zend_long, bool)) dlsym(RTLD_NEXT, "zend_set_timeout");
	php_unset_timeout = (void (*)(void)) dlsym(RTLD_NEXT, "zend_unset_timeout");
}

void tutti_timer_startup(void)
{
#ifdef ZEND_SIGNALS
	if (!php_set_timeout) {
		look_up();
	}
	if (!php_set_timeout || !php_unset_timeout) {
		return;
	}
	zend_function *taker = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("pcntl_signal"));
	if (taker && taker->type == ZEND_INTERNAL_FUNCTION) {
		php_pcntl_signal = taker->internal_function.handler;
		taker->internal_function.handler = ZEND_FN(noting_pcntl_signal);
	}
	/* PHP's handler has no name outside libphp: let PHP install it once. */
	zend_long seconds = EG(timeout_seconds);
	php_set_timeout(1000, true);
	php_handler = (void (*)(int)) SIGG(handlers)[SIGPROF - 1].handler;
	php_unset_timeout();
	EG(timeout_seconds) = seconds;
	usable = php_handler && (void *) php_handler != (void *) SIG_DFL && (void *) php_handler != (void *) SIG_IGN;
#endif
}

static void start_timer(zend_long seconds)
{
	struct itimerval timer = {{0, 0}, {seconds, 0}};
	setitimer(ITIMER_PROF, &timer, NULL);
}

ZEND_API void zend_set_timeout(zend_long seconds, bool reset_signals)
{
	if (!usable) {
		if (!php_set_timeout) {
			look_up();
		}
		php_set_timeout(seconds, reset_signals);
		return;
	}
#ifdef ZEND_SIGNALS
	EG(timeout_seconds) = seconds;
	armed = 0;
	if (seconds > 0 && !tutti_nothing_to_parse) {
		if (installed) {
			prepare_handler();
		} else {
			zend_signal(SIGPROF, on_time);
			installed = true;
		}
		start_timer(seconds);
		armed = 1;
	}
	zend_atomic_bool_store(&EG(timed_out), false);
#endif
}

ZEND_API void zend_unset_timeout(void)
{
	if (!usable) {
		if (!php_unset_timeout) {
			look_up();
		}
		php_unset_timeout();
		return;
	}
	armed = 0;
	if (!installed && EG(timeout_seconds)) {
		/* PHP's own timer may run: the hard limit. */
		start_timer(0);
	}
	zend_atomic_bool_store(&EG(timed_out), false);
}
