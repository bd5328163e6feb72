/* Stream: the engine at the end of a pipe, for the model test (run.py). A command a line on standard input, an answer a
 * line on standard output, in order. Times are nanoseconds.
 *
 *   L STEADY WALL PATH                          load a limits file                      L ok | L error: WHAT (WHERE)
 *   C STEADY WALL SERIAL COST PEEK NAME=VALUE.. decide                                  see print_decision
 *   R STEADY WALL LEASE                         release the n-th lease ever given       R 0|1
 *   N STEADY WALL LEASE                         renew it                                N 0|1 TTL_MS
 *   Q STEADY WALL SERIAL                        release the leases of a request         Q 0|1
 *   S STEADY WALL CELLS                         sweep                                   S
 *   U                                           usage                                   U COUNTERS LEASES LOG_BLOCKS
 *
 * Values have no space and no line break. Anything else ends the program with exit 2. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limit_set.h"
#include "limiter/limiter.h"
#include "node/limits_yaml.h"

#define LEASES_REMEMBERED 65536
#define MEMORY_ALIGNMENT 64

static const struct hr_limiter_sizes sizes = {
    .counters_max = 1 << 14, .leases_max = 1 << 14, .log_blocks_max = 1 << 14, .limits_max = 4096};

/* A limits file, compiled. The limiter borrows it until the next one is in force. */
struct loaded {
    struct hr_limits_file *file;
    void *memory;
    struct hr_limit_set set;
};

static struct hr_limiter *limiter;
static struct loaded *current;
static struct hr_id128 leases[LEASES_REMEMBERED]; /* a ring: the n-th lease ever given is at n modulo its size */
static uint64_t lease_count;

static void fail(const char *what)
{
    fprintf(stderr, "stream: %s\n", what);
    exit(2);
}

static void *allocate(size_t bytes)
{
    bytes = (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT; /* as aligned_alloc wants it */
    void *memory = aligned_alloc(MEMORY_ALIGNMENT, bytes);
    if (memory == NULL) {
        fail("out of memory");
    }
    return memset(memory, 0, bytes);
}

static char *next_word(char **rest)
{
    char *word = strsep(rest, " ");
    if (word == NULL) {
        fail("a command ends early");
    }
    return word;
}

static int64_t next_time(char **rest)
{
    char *word = next_word(rest), *end = NULL;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0') {
        fail("not a time");
    }
    return value;
}

static uint64_t next_number(char **rest)
{
    char *word = next_word(rest), *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0' || *word == '-') {
        fail("not a number");
    }
    return value;
}

static struct hr_now next_now(char **rest)
{
    hr_ns steady = next_time(rest);
    int64_t wall = next_time(rest);
    return (struct hr_now){.steady = steady, .wall = {wall}};
}

static void loaded_free(struct loaded *loaded)
{
    if (loaded == NULL) {
        return;
    }
    hr_limits_file_free(loaded->file);
    free(loaded->memory);
    free(loaded);
}

static struct loaded *loaded_new(struct hr_limits_file *file)
{
    struct loaded *loaded = allocate(sizeof(*loaded));
    size_t bytes = hr_limit_set_bytes(file->limits, file->limit_count);
    loaded->file = file;
    loaded->memory = allocate(bytes);
    if (hr_limit_set_build(&loaded->set, file->limits, file->limit_count, loaded->memory, bytes) != HR_OK) {
        fail("the limits do not build");
    }
    return loaded;
}

static void load(char *rest)
{
    struct hr_now now = next_now(&rest);
    struct hr_problem problem;
    struct hr_limits_file *file = hr_limits_file_load(next_word(&rest), &problem);
    if (file == NULL) {
        printf("L error: %s (%s)\n", problem.what, problem.where);
        return;
    }
    struct loaded *loaded = loaded_new(file);
    if (hr_limiter_load(limiter, &loaded->set, now) != HR_OK) {
        fail("the limits do not load");
    }
    loaded_free(current);
    current = loaded;
    puts("L ok");
}

static void print_name(const struct hr_limit *limit)
{
    if (limit == NULL) {
        putchar('-');
    } else {
        fwrite(limit->name.at, 1, limit->name.bytes, stdout);
    }
}

/* C ALLOWED ACTION DECIDED_BY RETRY_MS DELAY_MS, then each row as
 * NAME,MODE,ALLOWED,LIMIT,REMAINING,RETRY_MS,RESET_MS,HAS_LEASE. */
static void print_decision(const struct hr_decision *decision)
{
    printf("C %d %d ", decision->allowed, (int)decision->action);
    print_name(decision->decided_by);
    printf(" %" PRId64 " %" PRId64, decision->retry_after_ms, decision->delay_ms);
    for (uint32_t i = 0; i < decision->row_count; i++) {
        const struct hr_row *row = &decision->rows[i];
        putchar(' ');
        print_name(row->limit);
        printf(",%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64 ",%d", (int)row->limit->mode, row->allowed,
               row->limit->rule.capacity, row->remaining, row->retry_after_ms, row->reset_after_ms, row->has_lease);
        if (row->has_lease) {
            leases[lease_count++ % LEASES_REMEMBERED] = row->lease;
        }
    }
    putchar('\n');
}

static uint32_t parse_attributes(char *rest, struct hr_attribute *attributes)
{
    uint32_t count = 0;
    while (rest != NULL) {
        char *value = next_word(&rest), *name = strsep(&value, "=");
        if (value == NULL || count == HR_ATTRIBUTES_MAX) {
            fail("not a few NAME=VALUE");
        }
        attributes[count++] = (struct hr_attribute){.name = hr_span_of(name), .value = hr_span_of(value)};
    }
    return count;
}

static void check(char *rest)
{
    static struct hr_decision decision;
    struct hr_attribute attributes[HR_ATTRIBUTES_MAX];
    struct hr_now now = next_now(&rest);
    struct hr_request request = {.attributes = attributes, .serial = next_number(&rest)};
    request.cost = next_number(&rest);
    request.peek = next_number(&rest) != 0;
    request.attribute_count = parse_attributes(rest, attributes);
    enum hr_err err = hr_limiter_check(limiter, &request, now, &decision);
    if (err != HR_OK) {
        printf("C error: %s\n", hr_err_text(err));
        return;
    }
    print_decision(&decision);
}

static void end_or_renew_lease(char command, char *rest)
{
    struct hr_now now = next_now(&rest);
    struct hr_id128 lease = leases[next_number(&rest) % LEASES_REMEMBERED];
    if (command == 'R') {
        printf("R %d\n", hr_limiter_release(limiter, lease, now));
        return;
    }
    int64_t ttl_ms = 0;
    bool renewed = hr_limiter_renew(limiter, lease, now, &ttl_ms);
    printf("N %d %" PRId64 "\n", renewed, renewed ? ttl_ms : 0);
}

static void release_serial(char *rest)
{
    struct hr_now now = next_now(&rest);
    printf("Q %d\n", hr_limiter_release_serial(limiter, next_number(&rest), now));
}

static void sweep(char *rest)
{
    struct hr_now now = next_now(&rest);
    hr_limiter_sweep(limiter, (uint32_t)next_number(&rest), now);
    puts("S");
}

static void print_usage(void)
{
    struct hr_limiter_usage usage = hr_limiter_usage(limiter);
    printf("U %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", usage.counters, usage.leases, usage.log_blocks);
}

static void obey(char *line)
{
    char *rest = line, *command = next_word(&rest);
    switch (command[0]) {
    case 'L':
        load(rest);
        break;
    case 'C':
        check(rest);
        break;
    case 'R':
    case 'N':
        end_or_renew_lease(command[0], rest);
        break;
    case 'Q':
        release_serial(rest);
        break;
    case 'S':
        sweep(rest);
        break;
    case 'U':
        print_usage();
        break;
    default:
        fail("no such command");
    }
}

int main(void)
{
    static const struct hr_hash_key secret = {.bytes = {1, 2, 3, 4}};
    size_t bytes = hr_limiter_bytes(&sizes), line_size = 0;
    void *memory = allocate(bytes);
    limiter = hr_limiter_init(&sizes, &secret, memory, bytes);
    if (limiter == NULL) {
        fail("the limiter does not start");
    }
    char *line = NULL;
    while (getline(&line, &line_size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    free(line);
    loaded_free(current);
    free(memory);
    return 0;
}
