#include "node/command/local_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "node/clock.h"
#include "node/command/client.h"
#include "node/command/cmd.h"
#include "rpc/pairs.h"
#include "rpc/told.h"

#define READY_S_MAX 30
#define STOP_NS_MAX (15 * HR_NS_PER_S) /* more than a node takes to hand over, save and send (worker_uv.h) */
#define LOOK_NS (50 * HR_NS_PER_MS)
#define ASK_MS 500
#define FILE_PATH_BYTES (HR_CONFIG_PATH_BYTES_MAX + HR_CONFIG_NAME_BYTES_MAX + 8)

/* --- children --- */

/* What a child is to become. */
struct become {
    const char *name; /* of its log too */
    const char *program, *option, *file;
};

/* In the child. */
static _Noreturn void become(const struct hr_local *local, const struct become *it, int log, pid_t parent)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(nothing, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0 && sigprocmask(SIG_SETMASK, &local->before, NULL) == 0) {
        (void)execl(it->program, it->program, it->option, it->file, (char *)NULL);
    }
    _exit(HR_EXIT_INVALID);
}

static int start(struct hr_local *local, const struct become *it, struct hr_local_child *child)
{
    char log_path[FILE_PATH_BYTES];
    (void)snprintf(log_path, sizeof(log_path), "%s/%s.log", local->folder, it->name);
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) {
        return hr_cmd_fail_errno("cannot write the log", log_path);
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become(local, it, log, parent);
    }
    int saved = errno;
    (void)close(log); /* it is the child's */
    errno = saved;
    if (pid < 0) {
        return hr_cmd_fail_errno("cannot start a program", it->program);
    }
    *child = (struct hr_local_child){.pid = pid};
    return HR_EXIT_DONE;
}

static int start_links(struct hr_local *local)
{
    char file[FILE_PATH_BYTES];
    const struct become links = {"links", local->chaos, "links", file};
    (void)snprintf(file, sizeof(file), "%s/links", local->folder);
    return local->plan.has_links ? start(local, &links, &local->links) : HR_EXIT_DONE;
}

int hr_local_start_node(struct hr_local *local, uint32_t node)
{
    char file[FILE_PATH_BYTES];
    const char *name = local->plan.nodes[node].name;
    const struct become headroomd = {name, local->headroomd, "--config", file};
    (void)snprintf(file, sizeof(file), "%s/%s.yaml", local->folder, name);
    int status = start(local, &headroomd, &local->nodes[node]);
    local->running += status == HR_EXIT_DONE;
    return status;
}

static int start_all(struct hr_local *local)
{
    int status = start_links(local);
    for (uint32_t i = 0; i < local->plan.node_count && status == HR_EXIT_DONE; i++) {
        status = hr_local_start_node(local, i);
    }
    return status;
}

void hr_local_signal_node(const struct hr_local *local, uint32_t node, int number)
{
    if (local->nodes[node].pid > 0) {
        (void)kill(local->nodes[node].pid, number); /* it is our child, and not waited for yet: it is there */
    }
}

static void signal_nodes(const struct hr_local *local, int number)
{
    for (uint32_t i = 0; i < local->plan.node_count; i++) {
        hr_local_signal_node(local, i, number);
    }
}

static void note_end(struct hr_local *local, const char *name, int status)
{
    struct hr_problem problem;
    bool has_exited = WIFEXITED(status), is_clean = has_exited && WEXITSTATUS(status) == 0;
    if (local->is_stopping && is_clean) {
        return;
    }
    local->has_failed = true;
    hr_problem_what(&problem, "%s ended by %s %d", name, has_exited ? "itself, with status" : "signal",
                    has_exited ? WEXITSTATUS(status) : WTERMSIG(status));
    hr_problem_where(&problem, "its log is %s/%s.log", local->folder, name);
    (void)hr_cmd_fail(&problem);
}

/* True: it has ended just now. */
static bool reap_one(struct hr_local *local, const char *name, struct hr_local_child *child)
{
    int status = 0;
    if (child->pid == 0 || waitpid(child->pid, &status, WNOHANG) <= 0) {
        return false;
    }
    child->pid = 0;
    if (!child->is_ending) {
        note_end(local, name, status);
    }
    return true;
}

static void reap(struct hr_local *local)
{
    for (uint32_t i = 0; i < local->plan.node_count; i++) {
        local->running -= reap_one(local, local->plan.nodes[i].name, &local->nodes[i]);
    }
    (void)reap_one(local, "links", &local->links);
}

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written to it */
    }
    return fd >= 0;
}

/* Waits for one of the watched signals, not longer than this. True: it is an order to stop. Children that ended were
 * seen to. */
static bool is_told_to_stop(struct hr_local *local, hr_ns longest)
{
    const struct timespec wait = {.tv_sec = longest / HR_NS_PER_S, .tv_nsec = longest % HR_NS_PER_S};
    int number = sigtimedwait(&local->watched, NULL, &wait);
    reap(local);
    bool is_hung_up = number == SIGHUP && local->has_terminal && !has_terminal();
    if (number == SIGHUP && !is_hung_up) {
        signal_nodes(local, SIGHUP);
    }
    return is_hung_up || number == SIGINT || number == SIGTERM;
}

bool hr_local_wait(struct hr_local *local, hr_ns longest)
{
    hr_ns end = hr_clock_steady() + longest, left = longest;
    while (!local->is_stopping && left > 0) {
        local->is_stopping = is_told_to_stop(local, left);
        left = end - hr_clock_steady();
    }
    return local->is_stopping;
}

void hr_local_end_node(struct hr_local *local, uint32_t node, int number)
{
    hr_ns deadline = hr_clock_steady() + STOP_NS_MAX;
    local->nodes[node].is_ending = true;
    hr_local_signal_node(local, node, number);
    while (local->nodes[node].pid > 0) {
        local->is_stopping = is_told_to_stop(local, LOOK_NS) || local->is_stopping;
        if (hr_clock_steady() > deadline) {
            hr_local_signal_node(local, node, SIGKILL);
        }
    }
}

/* --- until all serve --- */

/* Does it answer for some of its region's counters? A node that has not found its region yet does not. */
static bool holds_partitions(struct hr_span status)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    int64_t held = 0;
    enum hr_err err = hr_pairs_begin(&pairs, status);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        if (hr_span_equal(pair.key, HR_SPAN("cluster"))) {
            return hr_unpack_number(pair.value, HR_SPAN("partitions_held"), &held) == HR_OK && held > 0;
        }
    }
    return false;
}

static bool is_serving(struct hr_span status)
{
    struct hr_span state;
    return hr_unpack_word(status, HR_SPAN("state"), &state) == HR_OK && hr_span_equal(state, HR_SPAN("serving")) &&
           holds_partitions(status);
}

static bool says_that_it_serves(const struct hr_local_node *node)
{
    static const struct hr_params none;
    struct hr_client client;
    struct hr_span status;
    if (!hr_client_open(&client, &node->rpc, ASK_MS)) {
        return false;
    }
    bool is_ready =
        hr_client_call(&client, HR_METHOD_STATUS, &none, &status) == HR_CLIENT_ANSWERED && is_serving(status);
    hr_client_close(&client);
    return is_ready;
}

/* The first that does not serve yet; node_count: all do. */
static uint32_t first_unready(struct hr_local *local)
{
    uint32_t i = 0;
    while (i < local->plan.node_count && local->nodes[i].pid > 0 &&
           (local->nodes[i].is_ready || says_that_it_serves(&local->plan.nodes[i]))) {
        local->nodes[i++].is_ready = true;
    }
    return i;
}

static int fail_unready(const struct hr_local *local, const char *name)
{
    struct hr_problem problem;
    hr_problem_what(&problem, "%s does not serve after %d s", name, READY_S_MAX);
    hr_problem_where(&problem, "its log is %s/%s.log", local->folder, name);
    (void)hr_cmd_fail(&problem);
    return HR_EXIT_UNREACHABLE;
}

/* HR_EXIT_DONE also where it is told to stop meanwhile. */
static int wait_until_ready(struct hr_local *local)
{
    hr_ns deadline = hr_clock_steady() + READY_S_MAX * HR_NS_PER_S;
    uint32_t unready = 0;
    while ((unready = first_unready(local)) < local->plan.node_count) {
        if (is_told_to_stop(local, LOOK_NS)) {
            local->is_stopping = true;
            return HR_EXIT_DONE;
        }
        if (local->has_failed) {
            return HR_EXIT_UNREACHABLE; /* and why was said */
        }
        if (hr_clock_steady() > deadline) {
            return fail_unready(local, local->plan.nodes[unready].name);
        }
    }
    return HR_EXIT_DONE;
}

/* --- the end --- */

/* It has nothing to save: it goes last, and at once. */
static void stop_links(struct hr_local *local)
{
    if (local->links.pid > 0) {
        (void)kill(local->links.pid, SIGKILL);
        (void)waitpid(local->links.pid, NULL, 0);
        local->links.pid = 0;
    }
}

/* Asks all to stop, and kills those that have not after a while, or when told once more. */
static void stop_all(struct hr_local *local)
{
    hr_ns deadline = hr_clock_steady() + STOP_NS_MAX;
    local->is_stopping = true;
    signal_nodes(local, SIGTERM);
    reap(local);
    while (local->running > 0) {
        hr_ns left = deadline - hr_clock_steady();
        if (is_told_to_stop(local, left > 0 ? left : 0) || left <= 0) {
            signal_nodes(local, SIGKILL);
            deadline = hr_clock_steady() + STOP_NS_MAX;
        }
    }
    stop_links(local);
}

static void watch_signals(struct hr_local *local)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    (void)sigemptyset(&local->watched); /* none of these fails for signals that there are */
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        (void)sigaddset(&local->watched, numbers[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &local->watched, &local->before);
}

int hr_local_start(struct hr_local *local)
{
    watch_signals(local);
    local->has_terminal = has_terminal();
    int status = start_all(local);
    return status == HR_EXIT_DONE ? wait_until_ready(local) : status;
}

int hr_local_stop(struct hr_local *local)
{
    stop_all(local);
    return local->has_failed ? HR_EXIT_FAILED : HR_EXIT_DONE;
}

int hr_local_run(struct hr_local *local, void (*announce)(const struct hr_local *local))
{
    int status = hr_local_start(local);
    if (status == HR_EXIT_DONE && !local->is_stopping) {
        announce(local);
        while (local->running > 0 && !hr_local_wait(local, HR_NS_PER_S)) {
        }
    }
    int stopped = hr_local_stop(local);
    return status == HR_EXIT_DONE ? stopped : status;
}
