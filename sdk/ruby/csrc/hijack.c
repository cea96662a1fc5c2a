/* The connection of a request in the hands of the application (Rack, "Hijacking"): a socket whose other end the Rust part carries to the
 * client.
 */

#include "internal.h"

static ID id_connection;

VALUE tutti_take_over(tutti_thread *thread)
{
	if (!host_may_take_over(thread->serving)) {
		rb_raise(rb_eIOError, "this thread has as many connections taken over as it may have (`limits.concurrency`)");
	}
	int descriptor = host_take_over(thread->serving);
	thread->request = NULL;
	thread->is_ended = true;
	if (descriptor < 0) {
		rb_raise(rb_eIOError, "the connection cannot be taken over: there is no descriptor or thread for it");
	}
	return rb_funcall(tutti.module, id_connection, 1, INT2FIX(descriptor));
}

/* call of `rack.hijack`. */
static VALUE call(VALUE self)
{
	tutti_thread *thread = tutti_serving(self);
	if (thread->is_started) {
		rb_raise(rb_eIOError, "the answer has begun: its connection cannot be taken over");
	}
	VALUE environment = thread->environment;
	VALUE connection = tutti_take_over(thread);
	rb_hash_aset(environment, tutti.keys[KEY_HIJACK_IO], connection);
	return connection;
}

void tutti_hijack_define(void)
{
	id_connection = rb_intern("connection");
	rb_define_method(tutti.input_class, "call", call, 0);
}
