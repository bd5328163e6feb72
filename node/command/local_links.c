#include "node/command/local_links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "node/amount_text.h"
#include "node/file_bytes.h"

#define FILE_BYTES_MAX ((size_t)64 * 1024)
#define PATH_BYTES (HR_CONFIG_PATH_BYTES_MAX + 16)
#define WORDS_MAX 4

static const char *const cut_words[] = {
    [HR_LOCAL_HEALED] = "heal", [HR_LOCAL_CUT] = "cut", [HR_LOCAL_MUTE] = "mute", [HR_LOCAL_DEAF] = "deaf"};

static bool find_cut(struct hr_span word, enum hr_local_cut *ret_cut)
{
    for (enum hr_local_cut cut = HR_LOCAL_HEALED; cut <= HR_LOCAL_DEAF; cut++) {
        if (hr_span_equal(hr_span_of(cut_words[cut]), word)) {
            *ret_cut = cut;
            return true;
        }
    }
    return false;
}

bool hr_local_cut_find(const char *word, enum hr_local_cut *ret_cut)
{
    return find_cut(hr_span_of(word), ret_cut);
}

void hr_local_links_write(const struct hr_local_plan *plan, const char *delay, FILE *out)
{
    (void)fprintf(out, "delay %s\n", delay);
    for (uint32_t region = 0; region < plan->region_count; region++) {
        const struct hr_local_node *first = &plan->nodes[region * plan->nodes_each];
        (void)fprintf(out, "region %s %s\n", plan->regions[region], first->gossip.host);
    }
    for (uint32_t i = 0; i < plan->node_count; i++) {
        const struct hr_local_node *node = &plan->nodes[i];
        char from[HR_ADDRESS_TEXT_BYTES], to[HR_ADDRESS_TEXT_BYTES];
        (void)hr_address_text(&node->relay, from);
        (void)hr_address_text(&node->gossip, to);
        (void)fprintf(out, "relay %s %s %s\n", plan->regions[node->region], from, to);
    }
}

/* --- lines and words --- */

/* The line that text begins with, and what comes behind it. */
static struct hr_span take_line(struct hr_span *text)
{
    const char *end = memchr(text->at, '\n', text->bytes);
    size_t bytes = end == NULL ? text->bytes : (size_t)(end - text->at);
    struct hr_span line = {text->at, bytes};
    bytes += end != NULL;
    *text = (struct hr_span){text->at + bytes, text->bytes - bytes};
    return line;
}

struct words {
    uint32_t count; /* WORDS_MAX + 1: too many */
    struct hr_span at[WORDS_MAX];
};

static struct words split(struct hr_span line)
{
    struct words words = {0};
    while (line.bytes > 0 && words.count <= WORDS_MAX) {
        const char *end = memchr(line.at, ' ', line.bytes);
        size_t bytes = end == NULL ? line.bytes : (size_t)(end - line.at);
        if (words.count < WORDS_MAX) {
            words.at[words.count] = (struct hr_span){line.at, bytes};
        }
        words.count++;
        bytes += end != NULL;
        line = (struct hr_span){line.at + bytes, line.bytes - bytes};
    }
    return words;
}

/* --- reading --- */

static bool is_word(const struct words *words, const char *word, uint32_t count)
{
    return words->count == count && hr_span_equal(words->at[0], hr_span_of(word));
}

/* region_count: none. */
static uint32_t find_region(const struct hr_local_links *links, struct hr_span name)
{
    uint32_t i = 0;
    while (i < links->region_count && !hr_span_equal(hr_span_of(links->regions[i].name), name)) {
        i++;
    }
    return i;
}

static bool read_host(struct hr_span text, struct in_addr *ret_at)
{
    char host[INET_ADDRSTRLEN];
    if (text.bytes >= sizeof(host)) {
        return false;
    }
    memcpy(host, text.at, text.bytes);
    host[text.bytes] = '\0';
    return inet_pton(AF_INET, host, ret_at) == 1;
}

static bool read_address(struct hr_span text, struct sockaddr_in *ret_at)
{
    struct hr_address address;
    if (hr_address_parse(text, &address) != HR_OK) {
        return false;
    }
    *ret_at = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(address.port)};
    return read_host(hr_span_of(address.host), &ret_at->sin_addr);
}

static bool read_region(struct hr_local_links *links, const struct words *words)
{
    struct hr_local_region *region = &links->regions[links->region_count];
    if (links->region_count == HR_LOCAL_REGIONS_MAX || words->at[1].bytes > HR_CONFIG_NAME_BYTES_MAX ||
        !read_host(words->at[2], &region->at)) {
        return false;
    }
    memcpy(region->name, words->at[1].at, words->at[1].bytes);
    region->name[words->at[1].bytes] = '\0';
    links->region_count++;
    return true;
}

static bool read_relay(struct hr_local_links *links, const struct words *words)
{
    uint32_t region = find_region(links, words->at[1]);
    if (links->relay_count == HR_LOCAL_NODES_MAX || region == links->region_count) {
        return false;
    }
    struct hr_local_relay *relay = &links->relays[links->relay_count++];
    relay->region = region;
    return read_address(words->at[2], &relay->from) && read_address(words->at[3], &relay->to);
}

static bool read_cut(struct hr_local_links *links, const struct words *words)
{
    uint32_t region = find_region(links, words->at[1]);
    return region < links->region_count && find_cut(words->at[0], &links->regions[region].cut);
}

static bool read_delay(struct hr_local_links *links, struct hr_span text)
{
    uint64_t delay_ns;
    if (hr_period_parse(text, &delay_ns) != HR_OK) {
        return false;
    }
    links->delay_ns = (hr_ns)delay_ns;
    return true;
}

static bool read_line(struct hr_local_links *links, struct hr_span line)
{
    const struct words words = split(line);
    if (is_word(&words, "delay", 2)) {
        return read_delay(links, words.at[1]);
    }
    if (is_word(&words, "loss", 2)) {
        return hr_percent_parse(words.at[1], &links->loss_ppm) == HR_OK;
    }
    if (is_word(&words, "region", 3)) {
        return read_region(links, &words);
    }
    return is_word(&words, "relay", 4) ? read_relay(links, &words) : words.count == 2 && read_cut(links, &words);
}

bool hr_local_links_read(const char *path, struct hr_local_links *ret_links, struct hr_problem *ret_problem)
{
    struct hr_file_bytes file;
    *ret_links = (struct hr_local_links){0};
    if (!hr_file_read(path, FILE_BYTES_MAX, &file, ret_problem)) {
        return false;
    }
    struct hr_span text = {file.at, file.bytes};
    unsigned number = 0;
    bool is_good = true;
    while (is_good && text.bytes > 0) {
        number++;
        is_good = read_line(ret_links, take_line(&text));
    }
    free(file.at);
    if (!is_good) {
        hr_problem_what(ret_problem, "a line that is no entry of a links file");
        hr_problem_where(ret_problem, "%s:%u", path, number);
    }
    return is_good;
}

/* --- changing --- */

/* Entries that are to go: those with one of the words, and of this subject where there is one; and the one to come. */
struct change {
    const char *const *words;
    size_t word_count;
    const char *subject;     /* NULL: any */
    const char *word, *rest; /* word NULL: none comes */
};

static bool is_to_go(const struct change *change, struct hr_span line)
{
    const struct words words = split(line);
    if (words.count != 2 || (change->subject != NULL && !hr_span_equal(words.at[1], hr_span_of(change->subject)))) {
        return false;
    }
    for (size_t i = 0; i < change->word_count; i++) {
        if (hr_span_equal(words.at[0], hr_span_of(change->words[i]))) {
            return true;
        }
    }
    return false;
}

static void write_changed(struct hr_span text, const struct change *change, FILE *out)
{
    while (text.bytes > 0) {
        struct hr_span line = take_line(&text);
        if (!is_to_go(change, line)) {
            (void)fprintf(out, "%.*s\n", (int)line.bytes, line.at);
        }
    }
    if (change->word != NULL) {
        (void)fprintf(out, "%s %s\n", change->word, change->rest);
    }
}

static bool fail_to_write(const char *path, struct hr_problem *problem)
{
    hr_problem_what(problem, "cannot change the links: %s", strerror(errno));
    hr_problem_where(problem, "%s", path);
    return false;
}

static bool replace(const char *path, struct hr_span text, const struct change *change, struct hr_problem *problem)
{
    char new_path[PATH_BYTES];
    (void)snprintf(new_path, sizeof(new_path), "%s.new", path);
    FILE *out = fopen(new_path, "we");
    if (out == NULL) {
        return fail_to_write(new_path, problem);
    }
    write_changed(text, change, out);
    bool is_written = ferror(out) == 0;
    is_written = fclose(out) == 0 && is_written;
    return (is_written && rename(new_path, path) == 0) || fail_to_write(path, problem);
}

static bool change_file(const char *path, const struct change *change, struct hr_problem *problem)
{
    struct hr_file_bytes file;
    if (!hr_file_read(path, FILE_BYTES_MAX, &file, problem)) {
        return false;
    }
    bool is_changed = replace(path, (struct hr_span){file.at, file.bytes}, change, problem);
    free(file.at);
    return is_changed;
}

bool hr_local_links_set(const char *path, const char *region, enum hr_local_cut cut, struct hr_problem *ret_problem)
{
    struct hr_local_links links;
    const struct change change = {.words = cut_words,
                                  .word_count = sizeof(cut_words) / sizeof(cut_words[0]),
                                  .subject = region,
                                  .word = cut == HR_LOCAL_HEALED ? NULL : cut_words[cut],
                                  .rest = region};
    if (!hr_local_links_read(path, &links, ret_problem)) {
        return false;
    }
    if (find_region(&links, hr_span_of(region)) == links.region_count) {
        hr_problem_what(ret_problem, "the cluster has no region \"%.64s\"", region);
        hr_problem_where(ret_problem, "%s", path);
        return false;
    }
    return change_file(path, &change, ret_problem);
}

bool hr_local_links_tune(const char *path, const char *what, const char *value, struct hr_problem *ret_problem)
{
    const struct change change = {.words = &what, .word_count = 1, .word = what, .rest = value};
    return change_file(path, &change, ret_problem);
}
