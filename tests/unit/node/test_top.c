/* What `headroom top` shows of a node in a cluster of several regions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/command/top.h"
#include "rpc/pack_msgpack.h"

static char bytes[4096];
static struct hr_packer out;

static void text(const char *word)
{
    hr_pack_text(&out, hr_span_of(word));
}

static void number(const char *key, uint64_t value)
{
    text(key);
    hr_pack_whole(&out, value);
}

static void region(const char *name, bool is_up, bool is_removed, int64_t age_ms)
{
    hr_pack_map(&out, 4);
    text("name");
    text(name);
    text("up");
    hr_pack_bool(&out, is_up);
    text("removed");
    hr_pack_bool(&out, is_removed);
    text("word_age_ms");
    if (age_ms < 0) {
        hr_pack_nil(&out);
    } else {
        hr_pack_whole(&out, (uint64_t)age_ms);
    }
}

static void caps(void)
{
    text("caps");
    hr_pack_map(&out, 2);
    text("regions");
    hr_pack_array(&out, 3);
    region("ap", true, false, 80);
    region("us", false, false, 7000);
    region("za", false, true, -1);
    text("limits");
    hr_pack_array(&out, 1);
    hr_pack_map(&out, 8);
    text("name");
    text("world");
    text("known");
    hr_pack_bool(&out, true);
    number("home", 300);
    number("reserve", 60);
    number("hot", 2);
    number("share", 550);
    number("lent", 70);
    number("borrowed", 20);
}

static struct hr_span status(bool has_caps)
{
    out = (struct hr_packer){.at = bytes, .room = sizeof(bytes)};
    hr_pack_map(&out, has_caps ? 3 : 2);
    text("node");
    text("eu-1");
    number("uptime_ms", 1000);
    if (has_caps) {
        caps();
    }
    return hr_packer_bytes(&out);
}

static char *printed(struct hr_span answer)
{
    static struct hr_top_sample sample;
    char *shown = NULL;
    size_t size = 0;
    memset(&sample, 0, sizeof(sample));
    assert_int_equal(hr_top_read_status(answer, &sample), HR_OK);
    FILE *file = open_memstream(&shown, &size);
    assert_non_null(file);
    hr_top_print(file, NULL, &sample, 10);
    assert_int_equal(fclose(file), 0);
    return shown;
}

static void global_limits_are_shown_with_what_the_region_has_of_them(void **state)
{
    static const char table[] =
        "global limit        home     reserve       hot       share        lent    borrowed\n"
        "world                300          60         2         550          70          20\n"
        "other regions:   ap heard 80ms ago   us heard 7s ago, not in touch   za never heard, removed\n";
    (void)state;
    char *shown = printed(status(true));
    if (strstr(shown, table) == NULL) {
        fail_msg("%s", shown);
    }
    free(shown);
}

static void a_node_alone_shows_none(void **state)
{
    (void)state;
    char *shown = printed(status(false));
    assert_null(strstr(shown, "global"));
    assert_null(strstr(shown, "regions"));
    free(shown);
}

static void an_answer_that_ends_early_is_none(void **state)
{
    static struct hr_top_sample sample;
    struct hr_span answer = status(true);
    (void)state;
    for (size_t count = 0; count < answer.bytes; count++) {
        char *prefix = malloc(count + 1); /* so that a sanitizer sees a byte too many being read */
        assert_non_null(prefix);
        memcpy(prefix, answer.at, count);
        enum hr_err err = hr_top_read_status((struct hr_span){prefix, count}, &sample);
        free(prefix);
        if (err == HR_OK) {
            fail_msg("%zu bytes were read", count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(global_limits_are_shown_with_what_the_region_has_of_them),
        cmocka_unit_test(a_node_alone_shows_none),
        cmocka_unit_test(an_answer_that_ends_early_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
