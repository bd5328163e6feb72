/* The TZif decoder and the offsets it gives: real files for the rules that people live by, files made here for every
 * way a file can be wrong. tests/model/zone_oracle.py compares all zones with another implementation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/units.h"
#include "limiter/zone.h"
#include "tests/lib/zoneinfo.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HOUR_S 3600
#define INSTANT_S_MAX INT64_C(9000000000)

static struct hr_zone zone;

/* ---- Real zones ---- */

static const struct {
    const char *name;
    int64_t at_s;
    int32_t offset_s;
} known_offsets[] = {
    {"UTC", 0, 0},
    {"Asia/Kolkata", 1709145000, 19800},
    {"America/New_York", -933638400, -4 * HOUR_S}, /* 1940-06-01: instants before 1970 have their offset too */
    {"America/New_York", 1710053999, -5 * HOUR_S}, /* 2024-03-10, the second before daylight saving */
    {"America/New_York", 1710054000, -4 * HOUR_S},
    {"America/New_York", 1730613599, -4 * HOUR_S},
    {"America/New_York", 1730613600, -5 * HOUR_S},
    {"America/New_York", 2372914799, -5 * HOUR_S}, /* 2045: only the rule knows */
    {"America/New_York", 2372914800, -4 * HOUR_S},
    {"Europe/Dublin", 1729990799, HOUR_S}, /* summer is standard time, winter the negative daylight saving */
    {"Europe/Dublin", 1729990800, 0},
    {"Europe/Dublin", 7265725199, 0}, /* 2200-03-30 */
    {"Europe/Dublin", 7265725200, HOUR_S},
    {"Australia/Lord_Howe", 1712415599, 11 * HOUR_S}, /* goes back by half an hour */
    {"Australia/Lord_Howe", 1712415600, 10 * HOUR_S + 1800},
    {"Pacific/Apia", 1325239199, -10 * HOUR_S}, /* skips 2011-12-30 */
    {"Pacific/Apia", 1325239200, 14 * HOUR_S},
    {"America/St_Johns", 1289097059, -2 * HOUR_S - 1800}, /* at 00:01 */
    {"America/St_Johns", 1289097060, -3 * HOUR_S - 1800},
    {"Asia/Tehran", 1663788599, 4 * HOUR_S + 1800},
    {"Asia/Tehran", 1663788600, 3 * HOUR_S + 1800},
    {"Asia/Tehran", 7000000000, 3 * HOUR_S + 1800}, /* daylight saving was given up */
    {"Africa/Casablanca", 1710035999, HOUR_S},
    {"Africa/Casablanca", 1710036000, 0}, /* Ramadan */
    {"Antarctica/Troll", 1711846799, 0},  /* by two hours */
    {"Antarctica/Troll", 1711846800, 2 * HOUR_S},
};

static void known_zones_have_their_known_offsets(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(known_offsets); i++) {
        zoneinfo_load(known_offsets[i].name, &zone);
        int32_t offset_s = hr_zone_offset_at(&zone, known_offsets[i].at_s).offset_s;
        if (offset_s != known_offsets[i].offset_s) {
            fail_msg("row %zu: %s is at %d", i, known_offsets[i].name, offset_s);
        }
    }
}

static void no_zone_is_utc(void **state)
{
    (void)state;
    struct hr_zone_offset offset = hr_zone_offset_at(NULL, 1);
    assert_int_equal(offset.offset_s, 0);
    assert_true(offset.since_s == INT64_MIN && offset.until_s == INT64_MAX);
}

/* Goes from extent to extent and looks at both sides of each seam. The seam to the rule may be one of equal offsets. */
static void extents_tile(const char *name, const struct hr_zone *checked)
{
    for (int64_t at_s = 0; at_s < INSTANT_S_MAX;) {
        struct hr_zone_offset here = hr_zone_offset_at(checked, at_s);
        if (here.until_s >= INSTANT_S_MAX) {
            return;
        }
        struct hr_zone_offset last = hr_zone_offset_at(checked, here.until_s - 1);
        struct hr_zone_offset next = hr_zone_offset_at(checked, here.until_s);
        if (here.since_s > at_s || here.until_s <= at_s || last.offset_s != here.offset_s ||
            last.since_s != here.since_s || last.until_s != here.until_s || next.since_s != here.until_s ||
            (next.offset_s == here.offset_s && here.until_s != checked->rule_since_s)) {
            fail_msg("%s: the extent around %lld is not one", name, (long long)at_s);
        }
        at_s = here.until_s;
    }
}

static void extents_of_equal_offset_tile_time_in_every_zone(void **state)
{
    (void)state;
    assert_true(zoneinfo_each(extents_tile) > 300);
}

static void every_prefix_of_a_file_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"America/New_York", "Europe/Dublin", "Asia/Kolkata", "UTC"};
    static struct zoneinfo_file file;
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/%s", ZONEINFO_DIR, names[i]);
        zoneinfo_read(path, &file);
        assert_int_equal(hr_zone_parse(zoneinfo_span(&file), &zone), HR_OK);
        for (size_t bytes = 0; bytes < file.bytes; bytes++) {
            char *prefix = malloc(bytes + 1); /* so that a sanitizer sees a byte read too far */
            assert_non_null(prefix);
            memcpy(prefix + 1, file.data, bytes);
            enum hr_err err = hr_zone_parse((struct hr_span){prefix + 1, bytes}, &zone);
            free(prefix);
            if (err != HR_E_TRUNCATED) {
                fail_msg("%s: %zu bytes give %s", names[i], bytes, hr_err_text(err));
            }
        }
    }
}

static void check_lookups(const struct hr_zone *checked, size_t bit)
{
    for (int64_t at_s = -100000; at_s < INSTANT_S_MAX; at_s += 999999999) {
        struct hr_zone_offset offset = hr_zone_offset_at(checked, at_s);
        if (offset.offset_s <= -HR_ZONE_OFFSET_S_MAX || offset.offset_s >= HR_ZONE_OFFSET_S_MAX ||
            offset.since_s > at_s || offset.until_s <= at_s) {
            fail_msg("bit %zu: no valid offset at %lld", bit, (long long)at_s);
        }
    }
}

static void every_flipped_bit_gives_an_error_or_a_valid_zone(void **state)
{
    (void)state;
    static struct zoneinfo_file file;
    zoneinfo_read(ZONEINFO_DIR "/America/New_York", &file);
    size_t refused = 0;
    for (size_t bit = 0; bit < file.bytes * 8; bit++) {
        char *byte = &file.data[bit / 8];
        *byte = (char)(*byte ^ (1 << bit % 8));
        if (hr_zone_parse(zoneinfo_span(&file), &zone) == HR_OK) {
            check_lookups(&zone, bit);
        } else {
            refused++;
        }
        *byte = (char)(*byte ^ (1 << bit % 8));
    }
    assert_in_range(refused, 1, file.bytes * 8 - 1);
}

/* ---- Files made here ---- */

struct image {
    size_t bytes;
    uint8_t data[64 * 1024];
};

static void put(struct image *image, uint64_t value, int bytes)
{
    while (bytes-- > 0) {
        image->data[image->bytes++] = (uint8_t)(value >> (8 * bytes));
    }
}

static void put_header(struct image *image, char version, const uint32_t counts[6])
{
    memcpy(image->data + image->bytes, "TZif", 4);
    image->bytes += 4;
    put(image, (uint8_t)version, 1);
    put(image, 0, 8);
    put(image, 0, 7);
    for (int i = 0; i < 6; i++) {
        put(image, counts[i], 4);
    }
}

struct transition {
    int64_t at_s;
    uint8_t type;
};

struct content {
    size_t transition_count, type_count;
    struct transition transitions[4];
    int32_t offsets_s[4];
    const char *footer;
};

static void put_block(struct image *image, const struct content *content, int time_bytes)
{
    for (size_t i = 0; i < content->transition_count; i++) {
        put(image, (uint64_t)content->transitions[i].at_s, time_bytes);
    }
    for (size_t i = 0; i < content->transition_count; i++) {
        put(image, content->transitions[i].type, 1);
    }
    for (size_t i = 0; i < content->type_count; i++) {
        put(image, (uint32_t)content->offsets_s[i], 4);
        put(image, 0, 2);
    }
    put(image, 0, 1); /* the names: one empty one */
}

/* Version 2 with an empty first block. */
static enum hr_err parse_content(const struct content *content)
{
    static struct image image;
    image.bytes = 0;
    put_header(&image, '2', (const uint32_t[6]){0});
    put_header(&image, '2',
               (const uint32_t[6]){0, 0, 0, (uint32_t)content->transition_count, (uint32_t)content->type_count, 1});
    put_block(&image, content, 8);
    memcpy(image.data + image.bytes, content->footer, strlen(content->footer));
    image.bytes += strlen(content->footer);
    return hr_zone_parse((struct hr_span){(const char *)image.data, image.bytes}, &zone);
}

static const struct {
    struct content content;
    enum hr_err err;
} contents[] = {
    {{0, 1, {{0, 0}}, {0}, "\n\n"}, HR_OK},
    {{2, 2, {{0, 0}, {1, 1}}, {0, 1}, "\n\n"}, HR_OK},
    {{0, 0, {{0, 0}}, {0}, "\n\n"}, HR_E_CORRUPT},                     /* no type */
    {{1, 1, {{0, 1}}, {0}, "\n\n"}, HR_E_CORRUPT},                     /* a type that is not there */
    {{2, 1, {{5, 0}, {5, 0}}, {0}, "\n\n"}, HR_E_CORRUPT},             /* not ascending */
    {{2, 1, {{5, 0}, {4, 0}}, {0}, "\n\n"}, HR_E_CORRUPT},             /* descending */
    {{0, 1, {{0, 0}}, {HR_ZONE_OFFSET_S_MAX}, "\n\n"}, HR_E_CORRUPT},  /* too far east */
    {{0, 1, {{0, 0}}, {-HR_ZONE_OFFSET_S_MAX}, "\n\n"}, HR_E_CORRUPT}, /* too far west */
    {{0, 1, {{0, 0}}, {HR_ZONE_OFFSET_S_MAX - 1}, "\n\n"}, HR_OK},
    {{0, 1, {{0, 0}}, {INT32_MIN}, "\n\n"}, HR_E_CORRUPT},
    {{0, 1, {{0, 0}}, {0}, "UTC0\n"}, HR_E_CORRUPT},     /* no newline before the rule */
    {{0, 1, {{0, 0}}, {0}, "\nUTC0"}, HR_E_TRUNCATED},   /* and none after it */
    {{0, 1, {{0, 0}}, {0}, "\nUTC0\n\n"}, HR_E_CORRUPT}, /* bytes behind the end */
    {{0, 1, {{0, 0}}, {0}, "\nUTC\n"}, HR_E_CORRUPT},    /* not a rule */
};

static void contradictions_in_a_file_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(contents); i++) {
        enum hr_err err = parse_content(&contents[i].content);
        if (err != contents[i].err) {
            fail_msg("row %zu: %s", i, hr_err_text(err));
        }
    }
}

/* The counts of a header, in its order: UT and standard indicators, leap seconds, transitions, types, name bytes. */
static const struct {
    char version;
    uint32_t counts[6];
    size_t body_bytes;
    enum hr_err err;
} headers[] = {
    {'\0', {0, 0, 0, 0, 1, 1}, 7, HR_OK},
    {'\0', {1, 1, 0, 0, 1, 1}, 9, HR_OK},
    {'\0', {0, 0, 0, 0, 1, 1}, 8, HR_E_CORRUPT},   /* a byte behind the end */
    {'\0', {0, 0, 0, 0, 1, 1}, 6, HR_E_TRUNCATED}, /* a byte missing */
    {'1', {0, 0, 0, 0, 1, 1}, 7, HR_E_CORRUPT},    /* version 1 is a NUL */
    {'\0', {2, 0, 0, 0, 1, 1}, 9, HR_E_CORRUPT},   /* indicators, but not one for each type */
    {'\0', {0, 2, 0, 0, 1, 1}, 9, HR_E_CORRUPT},
    {'\0', {0, 0, 1, 0, 1, 1}, 15, HR_E_INVALID}, /* leap seconds */
    {'\0', {0, 0, 0, HR_ZONE_TRANSITIONS_MAX + 1, 1, 1}, 20000, HR_E_TOO_MANY},
    {'\0', {0, 0, 0, 0, HR_ZONE_TYPES_MAX + 1, 1}, 20000, HR_E_TOO_MANY},
    {'\0', {0, 0, 0, UINT32_MAX, UINT32_MAX, UINT32_MAX}, 100, HR_E_TOO_MANY},
    {'\0', {0, 0, 0, 0, 1, UINT32_MAX}, 7, HR_E_TRUNCATED},
    {'2', {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, 100, HR_E_TRUNCATED},
};

static void counts_are_held_against_the_bytes_that_are_there(void **state)
{
    (void)state;
    static struct image image;
    for (size_t i = 0; i < COUNT(headers); i++) {
        memset(&image, 0, sizeof image);
        put_header(&image, headers[i].version, headers[i].counts);
        struct hr_span tzif = {(const char *)image.data, image.bytes + headers[i].body_bytes};
        enum hr_err err = hr_zone_parse(tzif, &zone);
        if (err != headers[i].err) {
            fail_msg("row %zu: %s", i, hr_err_text(err));
        }
    }
}

static void a_full_table_of_transitions_is_accepted(void **state)
{
    (void)state;
    static struct image image;
    image.bytes = 0;
    put_header(&image, '\0', (const uint32_t[6]){0, 0, 0, HR_ZONE_TRANSITIONS_MAX, 2, 1});
    for (uint64_t i = 0; i < HR_ZONE_TRANSITIONS_MAX; i++) {
        put(&image, i * 1000, 4);
    }
    for (uint64_t i = 0; i < HR_ZONE_TRANSITIONS_MAX; i++) {
        put(&image, (i + 1) % 2, 1);
    }
    put(&image, 0, 6);
    put(&image, HOUR_S, 4);
    put(&image, 0, 3);
    assert_int_equal(hr_zone_parse((struct hr_span){(const char *)image.data, image.bytes}, &zone), HR_OK);
    assert_int_equal(zone.transition_count, HR_ZONE_TRANSITIONS_MAX);
    for (int64_t i = 0; i < HR_ZONE_TRANSITIONS_MAX; i++) {
        struct hr_zone_offset offset = hr_zone_offset_at(&zone, i * 1000 + 999);
        assert_int_equal(offset.since_s, i * 1000);
        assert_int_equal(offset.offset_s, i % 2 == 0 ? HOUR_S : 0);
    }
}

static void a_file_without_its_magic_is_refused(void **state)
{
    (void)state;
    static const char text[] = "# tzdb data for Africa and environs, and far too many other lines of text";
    assert_int_equal(hr_zone_parse(HR_SPAN(text), &zone), HR_E_CORRUPT);
    static char large[HR_ZONE_FILE_BYTES_MAX + 1];
    assert_int_equal(hr_zone_parse((struct hr_span){large, sizeof large}, &zone), HR_E_TOO_MANY);
}

static void transitions_that_leave_the_offset_are_merged(void **state)
{
    (void)state;
    struct content content = {4, 3, {{10, 1}, {20, 2}, {30, 0}, {40, 0}}, {7, 8, 8}, "\n\n"};
    assert_int_equal(parse_content(&content), HR_OK);
    assert_int_equal(zone.transition_count, 2);
    struct hr_zone_offset offset = hr_zone_offset_at(&zone, 25);
    assert_int_equal(offset.offset_s, 8);
    assert_int_equal(offset.since_s, 10);
    assert_int_equal(offset.until_s, 30);
    assert_true(hr_zone_offset_at(&zone, 50).until_s == INT64_MAX);
}

/* 2005 to 2010 without daylight saving, told by a last transition that changes nothing. */
static void the_rule_waits_for_the_last_transition_even_a_merged_one(void **state)
{
    (void)state;
    struct content content = {2, 2, {{1104537600, 1}, {1262304000, 1}}, {HOUR_S, 0}, "\nWET0WEST,M3.5.0/1,M10.5.0\n"};
    assert_int_equal(parse_content(&content), HR_OK);
    assert_int_equal(hr_zone_offset_at(&zone, 1245000000).offset_s, 0);      /* June 2009 */
    assert_int_equal(hr_zone_offset_at(&zone, 1277000000).offset_s, HOUR_S); /* June 2010 */
    assert_int_equal(hr_zone_offset_at(&zone, 1262304000).since_s, 1262304000);
}

static void a_rule_without_transitions_holds_always(void **state)
{
    (void)state;
    struct content content = {0, 1, {{0, 0}}, {0}, "\n<+0330>-3:30\n"};
    assert_int_equal(parse_content(&content), HR_OK);
    assert_int_equal(hr_zone_offset_at(&zone, 0).offset_s, 12600);
    assert_true(hr_zone_offset_at(&zone, 0).since_s == INT64_MIN);
}

/* ---- Rules ---- */

static const char *const good_rules[] = {
    "UTC0",
    "EST5EDT,M3.2.0,M11.1.0",
    "EST+5EDT,M3.2.0/+2,M11.1.0/02:00:00",
    "<+0330>-3:30<+0430>,J79/24,J263/24",
    "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",
    "<A1+b>24:59:59<-02>,0/167:59:59,365/-167:59:59",
    "IST-1GMT0,M10.5.0,M3.5.0/1",
    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
};

static const char *const bad_rules[] = {
    "",
    "UTC",
    "UT0",
    "<UT>0",
    "<UTC0",
    "UTC>0",
    "U1C0",
    "<U.C>0",
    "UTC25",
    "UTC-25",
    "UTC+-1",
    "UTC1:60",
    "UTC1:00:60",
    "UTC1:",
    "UTC1:00:",
    "UTC99999999999999999999",
    "UTC0 ",
    ":UTC0",
    "EST5EDT",
    "EST5EDT4",
    "EST5ED,M3.2.0,M11.1.0",
    "EST5EDT,M3.2.0",
    "EST5EDT,M3.2.0,",
    "EST5EDT,M3.2.0,M11.1.0,",
    "EST5EDT,M3.2.0,M11.1.0/",
    "EST5EDT,M0.2.0,M11.1.0",
    "EST5EDT,M13.2.0,M11.1.0",
    "EST5EDT,M3.0.0,M11.1.0",
    "EST5EDT,M3.6.0,M11.1.0",
    "EST5EDT,M3.2.7,M11.1.0",
    "EST5EDT,M3.2,M11.1.0",
    "EST5EDT,M3,M11.1.0",
    "EST5EDT,J0,J300",
    "EST5EDT,J366,J300",
    "EST5EDT,366,300",
    "EST5EDT,-1,300",
    "EST5EDT,M3.2.0/168,M11.1.0",
    "EST5EDT,M3.2.0/-168,M11.1.0",
};

static void rules_are_told_from_what_is_none(void **state)
{
    (void)state;
    struct hr_zone_rule rule;
    for (size_t i = 0; i < COUNT(good_rules); i++) {
        if (hr_zone_rule_parse(hr_span_of(good_rules[i]), &rule) != HR_OK) {
            fail_msg("refused: %s", good_rules[i]);
        }
    }
    for (size_t i = 0; i < COUNT(bad_rules); i++) {
        if (hr_zone_rule_parse(hr_span_of(bad_rules[i]), &rule) != HR_E_CORRUPT) {
            fail_msg("taken: %s", bad_rules[i]);
        }
    }
}

/* The first and last instant of one extent, and the offset in it and just before it. */
static const struct {
    const char *rule;
    int64_t since_s;
    int64_t until_s;
    int32_t before_s;
    int32_t offset_s;
} rule_extents[] = {
    {"EST5EDT,M3.2.0,M11.1.0", 1710054000, 1730613600, -5 * HOUR_S, -4 * HOUR_S},
    {"EST5EDT,M3.2.0,M11.1.0", 1730613600, 1741503600, -4 * HOUR_S, -5 * HOUR_S},
    {"IST-1GMT0,M10.5.0,M3.5.0/1", 1729990800, 1743296400, HOUR_S, 0},
    {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 1728142200, 1743865200, 37800, 11 * HOUR_S},
    /* 29 February: J60 is always 1 March, 59 the day after 28 February. */
    {"AAA0BBB,J59/0,J60/0", 1709078400, 1709247600, 0, HOUR_S},
    {"AAA0BBB,J60/0,J61/0", 1709251200, 1709334000, 0, HOUR_S},
    {"AAA0BBB,J60/0,J61/0", 1677628800, 1677711600, 0, HOUR_S},
    {"AAA0BBB,59/0,60/0", 1709164800, 1709247600, 0, HOUR_S},
    {"AAA0BBB,59/0,60/0", 1677628800, 1677711600, 0, HOUR_S},
    /* Times of more than a day: the first Sunday after the fourth Thursday, as in Godthab before 2023: Saturday 22:00.
     */
    {"<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", 1648342800, 1667091600, -3 * HOUR_S, -2 * HOUR_S},
    {"<+02>-2<+03>,M3.4.4/50,M10.4.4/50", 1711756800, 1729897200, 2 * HOUR_S, 3 * HOUR_S},
    /* Changes that lie a week into the next year, and a week before the year. */
    {"AAA0BBB,365/167,100/0", 1736204400, 1744326000, 0, HOUR_S},
    {"AAA0BBB,0/-167,100/0", 1703466000, 1712703600, 0, HOUR_S},
};

static void rules_change_the_offset_when_they_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rule_extents); i++) {
        struct hr_zone_rule rule;
        assert_int_equal(hr_zone_rule_parse(hr_span_of(rule_extents[i].rule), &rule), HR_OK);
        int64_t since_s = rule_extents[i].since_s, until_s = rule_extents[i].until_s;
        for (int64_t at_s = since_s; at_s < until_s; at_s += (until_s - since_s) / 2) {
            struct hr_zone_offset offset = hr_zone_rule_offset_at(&rule, at_s);
            if (offset.offset_s != rule_extents[i].offset_s || offset.since_s != since_s || offset.until_s != until_s) {
                fail_msg("row %zu: %d from %lld until %lld", i, offset.offset_s, (long long)offset.since_s,
                         (long long)offset.until_s);
            }
        }
        struct hr_zone_offset before = hr_zone_rule_offset_at(&rule, since_s - 1);
        if (before.offset_s != rule_extents[i].before_s || before.until_s != since_s) {
            fail_msg("row %zu: before it %d until %lld", i, before.offset_s, (long long)before.until_s);
        }
    }
}

static void daylight_saving_can_last_all_year(void **state)
{
    (void)state;
    static const char *const rules[] = {"EST5EDT,0/0,J365/25", "AAA3EDT4,0/0,J365/23", "EST5EDT,J100,J100/3",
                                        "EST5EDT,0/0,J365/50"};
    struct hr_rng rng = {1};
    for (size_t i = 0; i < COUNT(rules); i++) {
        struct hr_zone_rule rule;
        assert_int_equal(hr_zone_rule_parse(hr_span_of(rules[i]), &rule), HR_OK);
        for (int n = 0; n < 100000; n++) {
            int64_t at_s = (int64_t)hr_rng_below(&rng, (uint64_t)INSTANT_S_MAX);
            struct hr_zone_offset offset = hr_zone_rule_offset_at(&rule, at_s);
            bool goes_on = offset.until_s - offset.since_s > 400 * HR_S_PER_DAY; /* over the turn of the year */
            if (offset.offset_s != -4 * HOUR_S || offset.since_s > at_s || offset.until_s <= at_s || !goes_on) {
                fail_msg("%s: %d at %lld", rules[i], offset.offset_s, (long long)at_s);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_zones_have_their_known_offsets),
        cmocka_unit_test(no_zone_is_utc),
        cmocka_unit_test(extents_of_equal_offset_tile_time_in_every_zone),
        cmocka_unit_test(every_prefix_of_a_file_is_refused),
        cmocka_unit_test(every_flipped_bit_gives_an_error_or_a_valid_zone),
        cmocka_unit_test(contradictions_in_a_file_are_refused),
        cmocka_unit_test(counts_are_held_against_the_bytes_that_are_there),
        cmocka_unit_test(a_full_table_of_transitions_is_accepted),
        cmocka_unit_test(a_file_without_its_magic_is_refused),
        cmocka_unit_test(transitions_that_leave_the_offset_are_merged),
        cmocka_unit_test(the_rule_waits_for_the_last_transition_even_a_merged_one),
        cmocka_unit_test(a_rule_without_transitions_holds_always),
        cmocka_unit_test(rules_are_told_from_what_is_none),
        cmocka_unit_test(rules_change_the_offset_when_they_say),
        cmocka_unit_test(daylight_saving_can_last_all_year),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
