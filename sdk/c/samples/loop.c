/* A Tutti application in C with an event loop: bodies come back as they come in, a WebSocket's messages too. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti_worker.h"

enum { MOST = 64 };

struct task {
    struct tutti_exchange *exchange;
    int is_socket;
    /* The bytes that have been read and not written. */
    uint8_t bytes[4096];
    size_t length;
    int has_ended;
    struct tutti_message *message;
    size_t sent;
};

static struct task tasks[MOST];

static void end(struct task *task, int is_whole) {
    tutti_message_free(task->message);
    if (is_whole)
        tutti_exchange_finish(task->exchange);
    else
        tutti_exchange_abort(task->exchange);
    memset(task, 0, sizeof *task);
}

static void echo_body(struct task *task) {
    for (;;) {
        intptr_t count;
        if (task->length == 0) {
            if (task->has_ended) {
                end(task, 1);
                return;
            }
            count = tutti_body_read(task->exchange, task->bytes, sizeof task->bytes, false);
            if (count == TUTTI_AGAIN) {
                tutti_response_flush(task->exchange);
                return;
            }
            if (count < 0) {
                end(task, 0);
                return;
            }
            task->has_ended = count == 0;
            task->length = (size_t)count;
            continue;
        }
        count = tutti_response_write(task->exchange, task->bytes, task->length, false);
        if (count == TUTTI_AGAIN)
            return;
        if (count < 0) {
            end(task, 0);
            return;
        }
        task->length -= (size_t)count;
        memmove(task->bytes, task->bytes + count, task->length);
    }
}

static void echo_messages(struct task *task) {
    for (;;) {
        if (task->message == NULL) {
            int32_t status = tutti_message_next(task->exchange, false, &task->message);
            if (status == TUTTI_AGAIN)
                return;
            if (status != TUTTI_OK) {
                end(task, 0);
                return;
            }
            task->sent = 0;
        }
        struct tutti_bytes bytes = tutti_message_bytes(task->message);
        uint32_t opcode = tutti_message_opcode(task->message);
        intptr_t count = tutti_message_send(task->exchange, opcode, bytes.data + task->sent,
                                            bytes.length - task->sent, false);
        if (count == TUTTI_AGAIN)
            return;
        if (count < 0) {
            end(task, 0);
            return;
        }
        task->sent += (size_t)count;
        if (task->sent == bytes.length) {
            tutti_message_free(task->message);
            task->message = NULL;
            if (opcode == TUTTI_MESSAGE_CLOSE) {
                end(task, 1);
                return;
            }
        }
    }
}

static void advance(struct task *task) {
    if (tutti_exchange_is_gone(task->exchange))
        end(task, 0);
    else if (task->is_socket)
        echo_messages(task);
    else
        echo_body(task);
}

/* Called for each slot with news, also for those whose exchange has ended. */
static void news(uint32_t slot, void *data) {
    size_t index;
    (void)data;
    for (index = 0; index < MOST; index++)
        if (tasks[index].exchange != NULL && tutti_exchange_slot(tasks[index].exchange) == slot) {
            advance(&tasks[index]);
            return;
        }
}

static void begin(struct tutti_exchange *exchange) {
    size_t free_place = 0;
    while (free_place < MOST && tasks[free_place].exchange != NULL)
        free_place++;
    if (free_place == MOST) {
        tutti_exchange_abort(exchange);
        return;
    }
    tasks[free_place].exchange = exchange;
    tasks[free_place].is_socket = tutti_request_number(exchange, TUTTI_WEBSOCKET) == 1;
    tutti_response_start(exchange, tasks[free_place].is_socket ? 101 : 200, NULL, 0);
    tutti_response_flush(exchange);
    advance(&tasks[free_place]);
}

int main(void) {
    struct tutti_process *process = tutti_process_open(NULL);
    struct tutti_worker *worker = tutti_worker_take(process);
    if (tutti_worker_enter_loop(worker, MOST) != TUTTI_OK) {
        tutti_process_fail(process, "entering the event loop", "the server made no events");
        return 1;
    }
    tutti_worker_ready(worker);
    tutti_process_ready(process);
    for (;;) {
        struct tutti_exchange *exchange;
        size_t index, open = 0;
        tutti_worker_attention(worker, news, NULL);
        while ((exchange = tutti_worker_try_next(worker)) != NULL)
            begin(exchange);
        for (index = 0; index < MOST; index++)
            open += tasks[index].exchange != NULL;
        if (tutti_worker_must_stop(worker) && open == 0)
            break;
        if (tutti_worker_prepare_sleep(worker)) {
            struct pollfd polls = {tutti_worker_event_fd(worker), POLLIN, 0};
            if (poll(&polls, 1, -1) == 1)
                tutti_worker_clear_event(worker);
            tutti_worker_woken(worker);
        }
    }
    tutti_worker_free(worker);
    tutti_process_close(process);
    return 0;
}
