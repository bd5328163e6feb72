#include "rpc/params.h"

#include "rpc/hex.h"

/* What one map is read into. */
struct reading {
    struct hr_unpacker in;
    struct hr_params *params;
    struct hr_fault *fault;
    bool is_one_of_many;
    uint32_t index; /* of a check in check_many */
};

static const struct hr_span keys[HR_PARAM_COUNT] = {
#define X(param, key) [HR_PARAM_##param] = {(key), sizeof(key) - 1},
    HR_PARAM_LIST(X)
#undef X
};

#define BIT(param) HR_PARAM_BIT(HR_PARAM_##param)

/* Which keys each method takes, and which of them it needs. limits.put takes any, and is read on its own. */
static const struct shape {
    unsigned allowed, required;
} shapes[HR_METHOD_UNKNOWN + 1] = {
    [HR_METHOD_CHECK] = {BIT(ATTRIBUTES) | BIT(COST) | BIT(ID) | BIT(PEEK) | BIT(DETAIL), BIT(ATTRIBUTES)},
    [HR_METHOD_CHECK_MANY] = {BIT(REQUESTS), BIT(REQUESTS)},
    [HR_METHOD_THROTTLE] = {BIT(KEY) | BIT(RATE) | BIT(BURST) | BIT(COST) | BIT(ALGORITHM) | BIT(SCOPE),
                            BIT(KEY) | BIT(RATE)},
    [HR_METHOD_RELEASE] = {BIT(LEASE), BIT(LEASE)},
    [HR_METHOD_RENEW] = {BIT(LEASE), BIT(LEASE)},
    [HR_METHOD_REFUND] = {BIT(ATTRIBUTES) | BIT(COST) | BIT(ID), BIT(ATTRIBUTES) | BIT(COST)},
    [HR_METHOD_LIMITS_GET] = {BIT(NAME), BIT(NAME)},
    [HR_METHOD_LIMITS_DELETE] = {BIT(NAME), BIT(NAME)},
    [HR_METHOD_MEMBERS] = {BIT(PARTITIONS), 0},
    [HR_METHOD_MEMBERS_FORGET] = {BIT(NAME), BIT(NAME)},
    [HR_METHOD_REGIONS_REMOVE] = {BIT(NAME), BIT(NAME)},
    [HR_METHOD_CHAOS_CLOCK] = {BIT(STEADY_OFFSET_MS) | BIT(WALL_OFFSET_MS), 0},
};

/* Not by assigning one to the next: the compiler would read back in one piece what it has just written in two, and
 * wait for it. */
static inline void set_empty(struct hr_span *span)
{
    span->at = "";
    span->bytes = 0;
}

static void init_params(struct hr_params *params)
{
    params->present = 0;
    params->attribute_count = 0;
    params->cost = 1;
    params->peek = params->partitions = false;
    params->detail = true;
    params->requests.count = 0;
    set_empty(&params->requests.values);
    set_empty(&params->id);
    set_empty(&params->key);
    set_empty(&params->rate);
    set_empty(&params->name);
    set_empty(&params->limit);
    params->burst = 0;
    params->steady_offset_ms = params->wall_offset_ms = 0;
    params->algorithm = HR_TOKEN_BUCKET;
    params->scope = HR_SCOPE_REGION;
    params->lease = (struct hr_id128){0, 0};
}

/* Begins the fault; in a check_many with the request's place. The other words come next. */
static void blame(struct reading *r, const char *words)
{
    hr_fault_begin(r->fault, HR_CODE_INVALID_ARGUMENT);
    if (r->is_one_of_many) {
        hr_fault_add(r->fault, "requests[");
        hr_fault_add_number(r->fault, r->index);
        hr_fault_add(r->fault, "]: ");
    }
    hr_fault_add(r->fault, words);
}

static bool refuse(struct reading *r, const char *words)
{
    blame(r, words);
    return false;
}

static bool refuse_quoting(struct reading *r, const char *words, struct hr_span text)
{
    blame(r, words);
    hr_fault_quote(r->fault, text);
    return false;
}

static bool refuse_range(struct reading *r, const char *words, uint64_t min, uint64_t max)
{
    blame(r, words);
    hr_fault_add(r->fault, " from ");
    hr_fault_add_number(r->fault, min);
    hr_fault_add(r->fault, " to ");
    hr_fault_add_number(r->fault, max);
    return false;
}

static bool read_cost(struct reading *r)
{
    if (hr_unpack_whole(&r->in, &r->params->cost) != HR_OK || r->params->cost > HR_COST_MAX) {
        return refuse_range(r, "cost must be a whole number", 0, HR_COST_MAX);
    }
    return true;
}

static bool read_burst(struct reading *r)
{
    uint64_t *burst = &r->params->burst;
    if (hr_unpack_whole(&r->in, burst) != HR_OK || *burst < 1 || *burst > HR_COST_MAX) {
        return refuse_range(r, "burst must be a whole number", 1, HR_COST_MAX);
    }
    return true;
}

static bool read_id(struct reading *r)
{
    struct hr_span *id = &r->params->id;
    if (hr_unpack_text(&r->in, id) != HR_OK || id->bytes < 1 || id->bytes > HR_ID_BYTES_MAX) {
        return refuse_range(r, "id must be text, its bytes", 1, HR_ID_BYTES_MAX);
    }
    return true;
}

static bool read_peek(struct reading *r)
{
    return hr_unpack_bool(&r->in, &r->params->peek) == HR_OK || refuse(r, "peek must be true or false");
}

static bool read_detail(struct reading *r)
{
    return hr_unpack_bool(&r->in, &r->params->detail) == HR_OK || refuse(r, "detail must be true or false");
}

static bool read_partitions(struct reading *r)
{
    return hr_unpack_bool(&r->in, &r->params->partitions) == HR_OK || refuse(r, "partitions must be true or false");
}

static bool read_key(struct reading *r)
{
    if (hr_unpack_text(&r->in, &r->params->key) != HR_OK || !hr_attribute_value_is_valid(r->params->key)) {
        return refuse(r, "key must be text of at most 1024 bytes of UTF-8 without NUL");
    }
    return true;
}

static bool read_rate(struct reading *r)
{
    struct hr_span *rate = &r->params->rate;
    if (hr_unpack_text(&r->in, rate) != HR_OK || rate->bytes < 1 || rate->bytes > HR_RATE_BYTES_MAX) {
        return refuse(r, "rate must be text as in a limits file, such as \"50/s\" or \"10 per 30s\"");
    }
    return true;
}

static bool has_rate(enum hr_algorithm algorithm)
{
    return algorithm != HR_QUOTA && algorithm != HR_CONCURRENCY;
}

static bool read_algorithm(struct reading *r)
{
    static const struct {
        struct hr_span name;
        enum hr_algorithm algorithm;
    } algorithms[] = {
#define X(value, name) {{(name), sizeof(name) - 1}, (value)},
        HR_ALGORITHM_LIST(X)
#undef X
    };
    struct hr_span name = HR_SPAN("");
    bool is_text = hr_unpack_text(&r->in, &name) == HR_OK;
    for (size_t i = 0; is_text && i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        if (hr_span_equal(algorithms[i].name, name) && has_rate(algorithms[i].algorithm)) {
            r->params->algorithm = algorithms[i].algorithm;
            return true;
        }
    }
    return refuse(r, "algorithm must be token_bucket, gcra, leaky_bucket, fixed_window, sliding_window or sliding_log");
}

static bool read_scope(struct reading *r)
{
    struct hr_span name = HR_SPAN("");
    bool is_text = hr_unpack_text(&r->in, &name) == HR_OK;
    bool is_global = hr_span_equal(name, HR_SPAN("global"));
    if (!is_text || (!is_global && !hr_span_equal(name, HR_SPAN("region")))) {
        return refuse(r, "scope must be region or global");
    }
    r->params->scope = is_global ? HR_SCOPE_GLOBAL : HR_SCOPE_REGION;
    return true;
}

static bool read_lease(struct reading *r)
{
    struct hr_span digits;
    if (hr_unpack_text(&r->in, &digits) != HR_OK || !hr_hex_read(digits, &r->params->lease)) {
        return refuse(r, "lease must be 32 hexadecimal digits");
    }
    return true;
}

static bool read_name(struct reading *r)
{
    if (hr_unpack_text(&r->in, &r->params->name) != HR_OK || !hr_limit_name_is_valid(r->params->name)) {
        return refuse(r, "name must be 1 to 64 of a-z, 0-9 and -");
    }
    return true;
}

static bool read_offset(struct reading *r, int64_t *offset_ms)
{
    bool is_read = hr_unpack_signed(&r->in, offset_ms) == HR_OK;
    return (is_read && *offset_ms >= -HR_OFFSET_MS_MAX && *offset_ms <= HR_OFFSET_MS_MAX) ||
           refuse(r, "an offset must be a whole number of milliseconds, 366 days at most either way");
}

static bool read_steady_offset(struct reading *r)
{
    return read_offset(r, &r->params->steady_offset_ms);
}

static bool read_wall_offset(struct reading *r)
{
    return read_offset(r, &r->params->wall_offset_ms);
}

static bool has_attribute(const struct hr_params *params, struct hr_span name)
{
    for (uint32_t i = 0; i < params->attribute_count; i++) {
        if (hr_span_equal(params->attributes[i].name, name)) {
            return true;
        }
    }
    return false;
}

static bool read_attribute(struct reading *r)
{
    struct hr_attribute attribute = {HR_SPAN(""), HR_SPAN("")};
    if (hr_unpack_text(&r->in, &attribute.name) != HR_OK || !hr_attribute_name_is_valid(attribute.name)) {
        return refuse_quoting(r, "an attribute's name must be 1 to 64 of a-z, 0-9, _ . -, not ", attribute.name);
    }
    if (has_attribute(r->params, attribute.name)) {
        return refuse_quoting(r, "an attribute is there twice: ", attribute.name);
    }
    if (hr_unpack_text(&r->in, &attribute.value) != HR_OK || !hr_attribute_value_is_valid(attribute.value)) {
        return refuse_quoting(r,
                              "an attribute must be text of at most 1024 bytes of UTF-8 without NUL: ", attribute.name);
    }
    r->params->attributes[r->params->attribute_count++] = attribute;
    return true;
}

static bool read_attributes(struct reading *r)
{
    uint32_t count;
    if (hr_unpack_map(&r->in, &count) != HR_OK || count < 1 || count > HR_ATTRIBUTES_MAX) {
        return refuse_range(r, "attributes must be a map, its pairs", 1, HR_ATTRIBUTES_MAX);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!read_attribute(r)) {
            return false;
        }
    }
    return true;
}

static bool read_map(struct reading *r, enum hr_method method);

/* Decodes each request and keeps only where they are: a thousand of them would be a megabyte. */
static bool read_requests(struct reading *r)
{
    uint32_t count;
    if (hr_unpack_array(&r->in, &count) != HR_OK || count > HR_REQUESTS_MAX) {
        return refuse_range(r, "requests must be an array, its length", 0, HR_REQUESTS_MAX);
    }
    struct hr_params params;
    struct reading one = {.in = r->in, .params = &params, .fault = r->fault, .is_one_of_many = true};
    for (; one.index < count; one.index++) {
        init_params(&params);
        if (!read_map(&one, HR_METHOD_CHECK)) {
            return false;
        }
    }
    struct hr_span values = {r->in.left.at, r->in.left.bytes - one.in.left.bytes};
    r->params->requests = (struct hr_requests){values, count};
    r->in = one.in;
    return true;
}

static bool (*const readers[HR_PARAM_COUNT])(struct reading *r) = {
    [HR_PARAM_ATTRIBUTES] = read_attributes,
    [HR_PARAM_COST] = read_cost,
    [HR_PARAM_ID] = read_id,
    [HR_PARAM_PEEK] = read_peek,
    [HR_PARAM_DETAIL] = read_detail,
    [HR_PARAM_REQUESTS] = read_requests,
    [HR_PARAM_KEY] = read_key,
    [HR_PARAM_RATE] = read_rate,
    [HR_PARAM_BURST] = read_burst,
    [HR_PARAM_ALGORITHM] = read_algorithm,
    [HR_PARAM_SCOPE] = read_scope,
    [HR_PARAM_LEASE] = read_lease,
    [HR_PARAM_NAME] = read_name,
    [HR_PARAM_PARTITIONS] = read_partitions,
    [HR_PARAM_STEADY_OFFSET_MS] = read_steady_offset,
    [HR_PARAM_WALL_OFFSET_MS] = read_wall_offset,
};

/* HR_PARAM_COUNT where there is none. A test holds it against the list. */
static enum hr_param find_param(struct hr_span key)
{
    switch (key.bytes) {
    case 2:
        return HR_SPAN_IS(key, "id") ? HR_PARAM_ID : HR_PARAM_COUNT;
    case 3:
        return HR_SPAN_IS(key, "key") ? HR_PARAM_KEY : HR_PARAM_COUNT;
    case 4:
        return HR_SPAN_IS(key, "cost")   ? HR_PARAM_COST
               : HR_SPAN_IS(key, "peek") ? HR_PARAM_PEEK
               : HR_SPAN_IS(key, "rate") ? HR_PARAM_RATE
               : HR_SPAN_IS(key, "name") ? HR_PARAM_NAME
                                         : HR_PARAM_COUNT;
    case 5:
        return HR_SPAN_IS(key, "burst")   ? HR_PARAM_BURST
               : HR_SPAN_IS(key, "scope") ? HR_PARAM_SCOPE
               : HR_SPAN_IS(key, "lease") ? HR_PARAM_LEASE
                                          : HR_PARAM_COUNT;
    case 6:
        return HR_SPAN_IS(key, "detail") ? HR_PARAM_DETAIL : HR_PARAM_COUNT;
    case 8:
        return HR_SPAN_IS(key, "requests") ? HR_PARAM_REQUESTS : HR_PARAM_COUNT;
    case 9:
        return HR_SPAN_IS(key, "algorithm") ? HR_PARAM_ALGORITHM : HR_PARAM_COUNT;
    case 10:
        return HR_SPAN_IS(key, "attributes")   ? HR_PARAM_ATTRIBUTES
               : HR_SPAN_IS(key, "partitions") ? HR_PARAM_PARTITIONS
                                               : HR_PARAM_COUNT;
    case 14:
        return HR_SPAN_IS(key, "wall_offset_ms") ? HR_PARAM_WALL_OFFSET_MS : HR_PARAM_COUNT;
    case 16:
        return HR_SPAN_IS(key, "steady_offset_ms") ? HR_PARAM_STEADY_OFFSET_MS : HR_PARAM_COUNT;
    default:
        return HR_PARAM_COUNT;
    }
}

static bool read_pair(struct reading *r, unsigned allowed)
{
    struct hr_span key;
    if (hr_unpack_text(&r->in, &key) != HR_OK) {
        return refuse(r, "a key must be text");
    }
    enum hr_param param = find_param(key);
    if (param == HR_PARAM_COUNT || (allowed & HR_PARAM_BIT(param)) == 0) {
        return refuse_quoting(r, "unknown key ", key);
    }
    if ((r->params->present & HR_PARAM_BIT(param)) != 0) {
        return refuse_quoting(r, "a key is there twice: ", key);
    }
    r->params->present |= HR_PARAM_BIT(param);
    return readers[param](r);
}

static bool read_map(struct reading *r, enum hr_method method)
{
    uint32_t count;
    if (hr_unpack_map(&r->in, &count) != HR_OK) {
        return refuse(r, r->is_one_of_many ? "a request must be a map" : "params must be an array holding one map");
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!read_pair(r, shapes[method].allowed)) {
            return false;
        }
    }
    unsigned missing = shapes[method].required & ~r->params->present;
    for (unsigned i = 0; missing != 0 && i < HR_PARAM_COUNT; i++) {
        if ((missing & HR_PARAM_BIT(i)) != 0) {
            return refuse_quoting(r, "a key is missing: ", keys[i]);
        }
    }
    if (r->params->scope == HR_SCOPE_GLOBAL && r->params->algorithm == HR_SLIDING_LOG) {
        return refuse(r, "a sliding_log cannot be global"); /* as in a limits file */
    }
    return true;
}

/* One pair of a limit. Only its name is understood here; whoever compiles limits reads the rest. */
static bool read_limit_pair(struct reading *r, struct hr_span *seen, uint32_t seen_count)
{
    struct hr_span key, value;
    if (hr_unpack_text(&r->in, &key) != HR_OK) {
        return refuse(r, "a key must be text");
    }
    for (uint32_t i = 0; i < seen_count; i++) {
        if (hr_span_equal(seen[i], key)) {
            return refuse_quoting(r, "a key is there twice: ", key);
        }
    }
    seen[seen_count] = key;
    if (hr_span_equal(key, keys[HR_PARAM_NAME])) {
        r->params->present |= BIT(NAME);
        return read_name(r);
    }
    return hr_unpack_skip(&r->in, &value) == HR_OK || refuse_quoting(r, "a value cannot be read: ", key);
}

static bool read_limit(struct reading *r)
{
    struct hr_span map = r->in.left, seen[HR_LIMIT_KEYS_MAX];
    uint32_t count;
    if (hr_unpack_map(&r->in, &count) != HR_OK || count > HR_LIMIT_KEYS_MAX) {
        return refuse_range(r, "a limit must be a map, its keys", 1, HR_LIMIT_KEYS_MAX);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!read_limit_pair(r, seen, i)) {
            return false;
        }
    }
    if ((r->params->present & BIT(NAME)) == 0) {
        return refuse_quoting(r, "a key is missing: ", keys[HR_PARAM_NAME]);
    }
    r->params->limit = (struct hr_span){map.at, map.bytes - r->in.left.bytes};
    return true;
}

bool hr_params_decode(enum hr_method method, struct hr_span map, struct hr_params *ret_params,
                      struct hr_fault *ret_fault)
{
    struct reading r = {.in = {map}, .params = ret_params, .fault = ret_fault};
    init_params(ret_params);
    return method == HR_METHOD_LIMITS_PUT ? read_limit(&r) : read_map(&r, method);
}

bool hr_requests_next(struct hr_requests *requests, struct hr_params *ret_params)
{
    if (requests->count == 0) {
        return false;
    }
    struct hr_fault fault;
    struct reading r = {.in = {requests->values}, .params = ret_params, .fault = &fault};
    init_params(ret_params);
    if (!read_map(&r, HR_METHOD_CHECK)) {
        return false; /* the bytes have changed since they were accepted */
    }
    *requests = (struct hr_requests){r.in.left, requests->count - 1};
    return true;
}

struct hr_request hr_params_request(const struct hr_params *params, uint64_t serial)
{
    return (struct hr_request){
        .attributes = params->attributes,
        .attribute_count = params->attribute_count,
        .peek = params->peek,
        .cost = params->cost,
        .serial = serial,
    };
}

static void pack_attributes(struct hr_packer *packer, const struct hr_params *params)
{
    hr_pack_map(packer, params->attribute_count);
    for (uint32_t i = 0; i < params->attribute_count; i++) {
        hr_pack_text(packer, params->attributes[i].name);
        hr_pack_text(packer, params->attributes[i].value);
    }
}

static void pack_lease(struct hr_packer *packer, struct hr_id128 lease)
{
    char digits[HR_LEASE_TEXT_BYTES];
    hr_hex_write(lease, digits);
    hr_pack_text(packer, (struct hr_span){digits, sizeof(digits)});
}

static void pack_value(struct hr_packer *packer, const struct hr_params *params, enum hr_param param)
{
    switch (param) {
    case HR_PARAM_ATTRIBUTES:
        pack_attributes(packer, params);
        return;
    case HR_PARAM_COST:
        hr_pack_whole(packer, params->cost);
        return;
    case HR_PARAM_ID:
        hr_pack_bin(packer, params->id); /* any bytes: it need not be UTF-8 */
        return;
    case HR_PARAM_PEEK:
        hr_pack_bool(packer, params->peek);
        return;
    case HR_PARAM_DETAIL:
        hr_pack_bool(packer, params->detail);
        return;
    case HR_PARAM_REQUESTS:
        hr_pack_array(packer, params->requests.count);
        hr_pack_raw(packer, params->requests.values.at, params->requests.values.bytes);
        return;
    case HR_PARAM_KEY:
        hr_pack_text(packer, params->key);
        return;
    case HR_PARAM_RATE:
        hr_pack_text(packer, params->rate);
        return;
    case HR_PARAM_BURST:
        hr_pack_whole(packer, params->burst);
        return;
    case HR_PARAM_ALGORITHM:
        hr_pack_text(packer, hr_span_of(hr_algorithm_name(params->algorithm)));
        return;
    case HR_PARAM_SCOPE:
        hr_pack_text(packer, params->scope == HR_SCOPE_GLOBAL ? HR_SPAN("global") : HR_SPAN("region"));
        return;
    case HR_PARAM_LEASE:
        pack_lease(packer, params->lease);
        return;
    case HR_PARAM_NAME:
        hr_pack_text(packer, params->name);
        return;
    case HR_PARAM_PARTITIONS:
        hr_pack_bool(packer, params->partitions);
        return;
    case HR_PARAM_STEADY_OFFSET_MS:
        hr_pack_signed(packer, params->steady_offset_ms);
        return;
    case HR_PARAM_WALL_OFFSET_MS:
        hr_pack_signed(packer, params->wall_offset_ms);
        return;
    case HR_PARAM_COUNT:
        return;
    }
}

static uint32_t count_bits(unsigned bits)
{
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1) {
        count++;
    }
    return count;
}

void hr_params_encode(const struct hr_params *params, struct hr_packer *packer)
{
    if (params->limit.bytes > 0) {
        hr_pack_raw(packer, params->limit.at, params->limit.bytes);
        return;
    }
    hr_pack_map(packer, count_bits(params->present));
    for (unsigned i = 0; i < HR_PARAM_COUNT; i++) {
        if ((params->present & HR_PARAM_BIT(i)) != 0) {
            hr_pack_text(packer, keys[i]);
            pack_value(packer, params, (enum hr_param)i);
        }
    }
}

void hr_pack_requests_head(struct hr_packer *packer, uint32_t count)
{
    hr_pack_map(packer, 1);
    hr_pack_text(packer, keys[HR_PARAM_REQUESTS]);
    hr_pack_array(packer, count);
}
