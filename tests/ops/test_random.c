/* Random numbers against values recorded from jax.random (threefry2x32, partitionable layout): keys, splits, bits of every width and
 * booleans bit by bit, floats too where no scaling rounds, normal values within the recorded tolerance. */
#include "conform.h"

#include "quern/autodiff.h"

enum { SPLIT, FOLD_IN, BITS, UNIFORM, NORMAL, BERNOULLI };

static const uint64_t split_part_0[] = {
    0x6b200159,
    0x99ba4efe,
};
static const uint64_t split_part_1[] = {
    0x1e3f1835,
    0x6e752082,
    0x74298876,
    0xfc8d8048,
};
static const uint64_t split_part_3[] = {
    0xbf573870, 0x2aca312e, 0x3966aa5c, 0x764aba5b, 0xe7ff6aec,
    0x8efb773d, 0xbddf9b61, 0xf16c3fec, 0x8aff37ac, 0xf726b6c6,
};
static const uint64_t fold_in_part_0[] = {
    0x6b200159,
    0x99ba4efe,
};
static const uint64_t fold_in_part_1[] = {
    0x74298876,
    0xfc8d8048,
};
static const uint64_t fold_in_part_2[] = {
    0x97d0552f,
    0x51bf719f,
};
static const uint64_t fold_in_part_3[] = {
    0x857e9a73,
    0x6222be6e,
};
static const uint64_t fold_in_part_4[] = {
    0x2c4e0437,
    0xe1e32d13,
};
static const uint64_t bits_part_u8_0[] = {
    0xa7,
};
static const uint64_t bits_part_u8_3[] = {
    0x5e, 0x7, 0xd1, 0x8d, 0x6a,
};
static const uint64_t bits_part_u8_5[] = {
    0xb7, 0x3e, 0x7a, 0xf1, 0xa4, 0xbc, 0x74, 0x14, 0x86, 0x68, 0x1f, 0x76, 0xc3, 0xd0, 0xe8, 0xdc, 0xf4,
    0x23, 0xc5, 0x3e, 0x6d, 0x69, 0x9e, 0x6b, 0x26, 0xf7, 0xfd, 0x74, 0x7c, 0x89, 0xd4, 0xc6, 0x80,
};
static const uint64_t bits_part_u8_7[] = {
    0x5e, 0x7,  0xd1, 0x8d, 0x6a, 0xa3, 0xed, 0x56, 0xc4, 0x3b, 0xde, 0x84,
    0xa2, 0x9c, 0xf,  0x9c, 0xc0, 0x4b, 0x65, 0x54, 0x16, 0xe1, 0x7b, 0x4b,
};
static const uint64_t bits_part_u16_0[] = {
    0x4fa7,
};
static const uint64_t bits_part_u16_3[] = {
    0x95e, 0x1007, 0x1dd1, 0xa48d, 0x816a,
};
static const uint64_t bits_part_u16_5[] = {
    0x38b7, 0x83e,  0xb57a, 0xbff1, 0x93a4, 0x16bc, 0xed74, 0xb814, 0x7486, 0x3f68, 0x8e1f,
    0xe076, 0x64c3, 0xdad0, 0x62e8, 0x65dc, 0xe7f4, 0x5523, 0x99c5, 0x233e, 0xad6d, 0x369,
    0x179e, 0x516b, 0xf826, 0xf9f7, 0xc4fd, 0xc674, 0x1b7c, 0x5389, 0x68d4, 0xa5c6, 0xb180,
};
static const uint64_t bits_part_u16_7[] = {
    0x95e,  0x1007, 0x1dd1, 0xa48d, 0x816a, 0xdea3, 0x32ed, 0x1156, 0xcc4,  0x883b, 0xf4de, 0xc084,
    0x4ea2, 0xe09c, 0xe30f, 0x1d9c, 0xadc0, 0x644b, 0x5965, 0xf354, 0x5f16, 0x9de1, 0x577b, 0xc54b,
};
static const uint64_t bits_part_u32_0[] = {
    0xf29a4fa7,
};
static const uint64_t bits_part_u32_3[] = {
    0x959d095e, 0x4f2c1007, 0x69041dd1, 0x4cb3a48d, 0x7dd9816a,
};
static const uint64_t bits_part_u32_5[] = {
    0x704a38b7, 0x88a4083e, 0x7227b57a, 0x703abff1, 0xe5b993a4, 0x8f1716bc, 0xfbdfed74, 0xd78cb814, 0x62c27486,
    0xa3d43f68, 0x3d4f8e1f, 0x672be076, 0xcfe464c3, 0xc8badad0, 0xd01f62e8, 0xb56765dc, 0xd53ae7f4, 0x9415523,
    0xce2399c5, 0xd89233e,  0x79e1ad6d, 0x10ec0369, 0x2892179e, 0xbd75516b, 0xb9cf826,  0xb29df9f7, 0xc8e8c4fd,
    0x220cc674, 0x57a21b7c, 0x20c55389, 0xde0868d4, 0x5eaea5c6, 0xb188b180,
};
static const uint64_t bits_part_u32_7[] = {
    0x959d095e, 0x4f2c1007, 0x69041dd1, 0x4cb3a48d, 0x7dd9816a, 0x94bbdea3, 0x46a832ed, 0xb7141156,
    0x58c90cc4, 0xe0b0883b, 0xe1a9f4de, 0xda99c084, 0xafe4ea2,  0x17be09c,  0x751ee30f, 0x357f1d9c,
    0x9c36adc0, 0xe4de644b, 0xc78c5965, 0x9a89f354, 0x2e295f16, 0x29a59de1, 0x16a7577b, 0x9998c54b,
};
static const uint64_t bits_part_u64_0[] = {
    0x6b20015999ba4efe,
};
static const uint64_t bits_part_u64_3[] = {
    0xbf5738702aca312e, 0x3966aa5c764aba5b, 0xe7ff6aec8efb773d, 0xbddf9b61f16c3fec, 0x8aff37acf726b6c6,
};
static const uint64_t bits_part_u64_5[] = {
    0x1e3f18356e752082, 0x74298876fc8d8048, 0x918ca911e3ab1c6b, 0xd4aee86fa494579e, 0x33d2ccadd66b5f09,
    0xc151e7734e46f1cf, 0x87b2c8227c6d2556, 0x38e71e7aef6ba66e, 0x7ad47022181604a4, 0x168e7f39b55a4051,
    0x297e85e514310bfa, 0x21a2ba8e46895af8, 0xaec5ee1461218ad7, 0xb938bf8171826551, 0xe6636559367c07b1,
    0x42532fecf7344a30, 0xc5f477b610ce9042, 0x50907c9459d129b7, 0xe9c8e36b27eb7aae, 0x90a4566c9d2d7552,
    0x1ac55dbc6324f0d1, 0x1174411901984270, 0xdcf4e953f466fecd, 0xac49b338113ce253, 0xfd33c6bbf6af3e9d,
    0x38eacbc98a77323e, 0xe9610a362189cecb, 0x5d70271d7f7ce169, 0xa4ab329cf30929e0, 0x8b1ba93cabdefab5,
    0x839a1d9a5d92754e, 0xc910a3e597be0623, 0xb52992cb04a1234b,
};
static const uint64_t bits_part_u64_7[] = {
    0xbf5738702aca312e, 0x3966aa5c764aba5b, 0xe7ff6aec8efb773d, 0xbddf9b61f16c3fec, 0x8aff37acf726b6c6,
    0xfe3dcaf9b58020c,  0x3d7a002a7bd232c7, 0x1926ba38ae32ab6e, 0xbefe9658e6379a9c, 0x64dec87e846e4045,
    0x1f9ef528fe3701f6, 0x61477a56bbdebad2, 0xd503f6fcdffdb85e, 0xadd2ee72aca90eee, 0x6c120fb0190cecbf,
    0xe953c982dc2cd41e, 0xa87d4fd9344be219, 0xb65fc8cb5281ac80, 0x9af567725d793e17, 0xfc9997496610641d,
    0x63ecd2cc4dc58dda, 0x352fe2611c8a7f80, 0x7e44763768e3214c, 0xa9a71f65303fda2e,
};
static const uint64_t uniform_0_f32[] = {
    0x3f159d08, 0x3e9e5820, 0x3ed20838, 0x3e996748, 0x3efbb300, 0x3f14bbde, 0x3e8d5064,
};
static const uint64_t uniform_1_f32[] = {
    0x3f65349c, 0x3f75086c, 0xbeabbbc8, 0xbd805580, 0x3e0f21d0, 0xbf2b4330, 0xbec25c58, 0x3ec20730,
    0x3efcb060, 0xbf2870c8, 0x3f78804c, 0xbf730e28, 0x3e8f6720, 0x3e006410, 0x3f4c65c0,
};
static const uint64_t uniform_2_f32[] = {
    0x405437aa, 0x40667b06, 0x40559dc7, 0x40542c0e, 0x40962597, 0x406b5150, 0x409e73f8, 0x4090d4c5, 0x404a11d7,
    0x407adf2e, 0x402dfbaa, 0x404d60e8, 0x408df5a6, 0x408b4612, 0x408e0bc5, 0x408406c6, 0x408ff616, 0x4006f0ff,
    0x408d4d59, 0x400a26da, 0x405b6941, 0x400cb102, 0x401e6d90, 0x40870bfe, 0x4008b5ba, 0x4082fb3d, 0x408b574a,
    0x40198994, 0x4041b994, 0x401893fe, 0x40934327, 0x404702fb, 0x40829342,
};
static const uint64_t uniform_3_f16[] = {
    0x2ce0, 0x3218, 0x3bce, 0x3a0e, 0x3730, 0x34ec, 0x39bc, 0x3090, 0x3bf4,
};
static const uint64_t uniform_4_bf16[] = {
    0x3f26, 0x3f12, 0x3e20, 0x3e50, 0x3f36, 0x3e84, 0x3ef8, 0x3f7e, 0x3ec4,
};
static const uint64_t uniform_5_bf16[] = {
    0x3fa0, 0xbfc6, 0xbe10, 0x4028, 0x3f58, 0x3fb4, 0xbe90, 0xc022,
    0x3e10, 0xbf10, 0xc013, 0xbe70, 0x3fc8, 0x3ff0, 0x401c, 0x400a,
};
static const uint64_t uniform_6_f64[] = {
    0x3fbe3f18356e7520, 0x3fdd0a621dbf2360, 0x3fe23195223c7562, 0x3fea95dd0df4928a,
    0x3fc9e96656eb35a8, 0x3fe82a3cee69c8de, 0x3fe0f659044f8da4,
};
static const uint64_t uniform_7_f32[] = {
    0x3bb0e4f2, 0x3be93f93, 0x3bd6838c, 0x3bc637e7, 0x3ba5ab23,
};
static const uint64_t uniform_8_f32[] = {
    0x3f159d08,
};
static const uint64_t uniform_9_f32[] = {
    0x40a00000,
    0x40a00000,
    0x40a00000,
};
static const uint64_t normal_0_f32[] = {
    0x3fcfb2bd, 0x40019df0, 0xbede0017, 0xbda10222, 0x3e34512c, 0xbf78dad7, 0xbefd97cc,
};
static const uint64_t normal_1_f32[] = {
    0xbce7df15, 0x3eef2be8, 0x3e976661, 0x3e1d3b24, 0xbdfe04eb, 0x3e5e211a, 0xbfb86eb9,
    0x3f418009, 0x3f057b1a, 0x3f6900ed, 0xbec4dcbd, 0x3f91e5bb, 0x3fb90f86, 0x3f8a5b26,
    0xbd6693b6, 0x3f68db2f, 0x3f0eae3d, 0x3e605087, 0xbfb968bc, 0x3f43a1cb,
};
static const uint64_t normal_3_f16[] = {
    0xba27, 0xbf6f, 0x3863, 0x3961, 0x322a, 0xbd68, 0x3dd1, 0x38a3, 0xaf2e,
};
static const uint64_t normal_4_bf16[] = {
    0xbeab, 0xbffa, 0x3f65, 0x3dfc, 0xbe5a, 0x3eb0, 0x3fb8, 0xbed6, 0x3f3b,
};
static const uint64_t normal_5_f64[] = {
    0x3fe55335951ef795, 0xbfe8419c11199f5f, 0x3ff5165aee0e222c, 0x3fe4c11eeffb28d9,
    0x3fbb9e6545a153e1, 0xbff89a188723557e, 0xbfe6964471308f27,
};
static const uint64_t normal_6_f32[] = {
    0xbe1e24c8,
};
static const uint64_t bernoulli_0[] = {
    0x1, 0x0, 0x1, 0x1, 0x0, 0x0, 0x0, 0x0, 0x1, 0x0, 0x1,
};
static const uint64_t bernoulli_1[] = {
    0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x1, 0x0,
};

typedef struct record {
  const char *id;
  int kind;
  uint32_t key[2];
  qn_type type;
  double a, b; /* bounds, data or probability */
  const uint64_t *want;
} record;

static const record records[] = {
    {"split/part/0", SPLIT, {0x0, 0x0}, {QN_U32, 2, {1, 2}}, 0, 0, split_part_0},
    {"split/part/1", SPLIT, {0x0, 0x1}, {QN_U32, 2, {2, 2}}, 0, 0, split_part_1},
    {"split/part/3", SPLIT, {0x0, 0x12d687}, {QN_U32, 2, {5, 2}}, 0, 0, split_part_3},
    {"fold_in/part/0", FOLD_IN, {0x0, 0x0}, {QN_U32, 1, {2}}, 0, 0, fold_in_part_0},
    {"fold_in/part/1", FOLD_IN, {0x0, 0x1}, {QN_U32, 1, {2}}, 1, 0, fold_in_part_1},
    {"fold_in/part/2", FOLD_IN, {0x0, 0x2a}, {QN_U32, 1, {2}}, 7, 0, fold_in_part_2},
    {"fold_in/part/3", FOLD_IN, {0x0, 0x12d687}, {QN_U32, 1, {2}}, 123456, 0, fold_in_part_3},
    {"fold_in/part/4", FOLD_IN, {0x0, 0x0}, {QN_U32, 1, {2}}, 4294967295, 0, fold_in_part_4},
    {"bits/part/u8_0", BITS, {0x0, 0x0}, {QN_U8, 0, {0}}, 0, 0, bits_part_u8_0},
    {"bits/part/u8_3", BITS, {0x0, 0x12d687}, {QN_U8, 1, {5}}, 0, 0, bits_part_u8_3},
    {"bits/part/u8_5", BITS, {0x0, 0x1}, {QN_U8, 1, {33}}, 0, 0, bits_part_u8_5},
    {"bits/part/u8_7", BITS, {0x0, 0x12d687}, {QN_U8, 3, {2, 3, 4}}, 0, 0, bits_part_u8_7},
    {"bits/part/u16_0", BITS, {0x0, 0x0}, {QN_U16, 0, {0}}, 0, 0, bits_part_u16_0},
    {"bits/part/u16_3", BITS, {0x0, 0x12d687}, {QN_U16, 1, {5}}, 0, 0, bits_part_u16_3},
    {"bits/part/u16_5", BITS, {0x0, 0x1}, {QN_U16, 1, {33}}, 0, 0, bits_part_u16_5},
    {"bits/part/u16_7", BITS, {0x0, 0x12d687}, {QN_U16, 3, {2, 3, 4}}, 0, 0, bits_part_u16_7},
    {"bits/part/u32_0", BITS, {0x0, 0x0}, {QN_U32, 0, {0}}, 0, 0, bits_part_u32_0},
    {"bits/part/u32_3", BITS, {0x0, 0x12d687}, {QN_U32, 1, {5}}, 0, 0, bits_part_u32_3},
    {"bits/part/u32_5", BITS, {0x0, 0x1}, {QN_U32, 1, {33}}, 0, 0, bits_part_u32_5},
    {"bits/part/u32_7", BITS, {0x0, 0x12d687}, {QN_U32, 3, {2, 3, 4}}, 0, 0, bits_part_u32_7},
    {"bits/part/u64_0", BITS, {0x0, 0x0}, {QN_U64, 0, {0}}, 0, 0, bits_part_u64_0},
    {"bits/part/u64_3", BITS, {0x0, 0x12d687}, {QN_U64, 1, {5}}, 0, 0, bits_part_u64_3},
    {"bits/part/u64_5", BITS, {0x0, 0x1}, {QN_U64, 1, {33}}, 0, 0, bits_part_u64_5},
    {"bits/part/u64_7", BITS, {0x0, 0x12d687}, {QN_U64, 3, {2, 3, 4}}, 0, 0, bits_part_u64_7},
    {"uniform/0_f32", UNIFORM, {0x0, 0x12d687}, {QN_F32, 1, {7}}, 0.0, 1.0, uniform_0_f32},
    {"uniform/1_f32", UNIFORM, {0x0, 0x0}, {QN_F32, 2, {3, 5}}, -1.0, 1.0, uniform_1_f32},
    {"uniform/2_f32", UNIFORM, {0x0, 0x1}, {QN_F32, 1, {33}}, 2.0, 5.0, uniform_2_f32},
    {"uniform/3_f16", UNIFORM, {0x0, 0x2a}, {QN_F16, 1, {9}}, 0.0, 1.0, uniform_3_f16},
    {"uniform/4_bf16", UNIFORM, {0x0, 0x0}, {QN_BF16, 1, {9}}, 0.0, 1.0, uniform_4_bf16},
    {"uniform/5_bf16", UNIFORM, {0x0, 0x1}, {QN_BF16, 2, {4, 4}}, -3.0, 3.0, uniform_5_bf16},
    {"uniform/6_f64", UNIFORM, {0x0, 0x1}, {QN_F64, 1, {7}}, 0.0, 1.0, uniform_6_f64},
    {"uniform/7_f32", UNIFORM, {0x0, 0x2a}, {QN_F32, 1, {5}}, 0.001, 0.01, uniform_7_f32},
    {"uniform/8_f32", UNIFORM, {0x0, 0x12d687}, {QN_F32, 0, {0}}, 0.0, 1.0, uniform_8_f32},
    {"uniform/9_f32", UNIFORM, {0x0, 0x0}, {QN_F32, 1, {3}}, 5.0, 5.0, uniform_9_f32},
    {"normal/0_f32", NORMAL, {0x0, 0x0}, {QN_F32, 1, {7}}, 0, 0, normal_0_f32},
    {"normal/1_f32", NORMAL, {0x0, 0x2a}, {QN_F32, 2, {4, 5}}, 0, 0, normal_1_f32},
    {"normal/3_f16", NORMAL, {0x0, 0x1}, {QN_F16, 1, {9}}, 0, 0, normal_3_f16},
    {"normal/4_bf16", NORMAL, {0x0, 0x12d687}, {QN_BF16, 1, {9}}, 0, 0, normal_4_bf16},
    {"normal/5_f64", NORMAL, {0x0, 0x12d687}, {QN_F64, 1, {7}}, 0, 0, normal_5_f64},
    {"normal/6_f32", NORMAL, {0x0, 0x1}, {QN_F32, 0, {0}}, 0, 0, normal_6_f32},
    {"bernoulli/0", BERNOULLI, {0x0, 0x1}, {QN_BOOL, 1, {11}}, 0.5, 0, bernoulli_0},
    {"bernoulli/1", BERNOULLI, {0x0, 0x2a}, {QN_BOOL, 2, {4, 5}}, 0.10000000149011612, 0, bernoulli_1},
};

static qn_val build(const record *r, qn_val key, qn_graph *g) {
  switch (r->kind) {
  case SPLIT:
    return qn_key_split(key, r->type.dims[0]);
  case FOLD_IN:
    return qn_key_fold_in(key, qn_scalar(g, QN_U32, r->a));
  case BITS:
    return qn_random_bits(key, r->type);
  case UNIFORM:
    return qn_random_uniform(key, r->type, r->a, r->b);
  case NORMAL:
    return qn_random_normal(key, r->type);
  default:
    return qn_random_bernoulli(key, r->a, r->type.rank, r->type.dims);
  }
}

static double tolerance(const record *r) {
  if (r->kind == UNIFORM)
    return (r->a == 0 && r->b == 1) ? 0 : r->type.dtype == QN_BF16 ? 0x1p-7 : r->type.dtype == QN_F16 ? 0x1p-10 : 1e-6;
  if (r->kind == NORMAL)
    return r->type.dtype == QN_BF16 ? 0.04 : r->type.dtype == QN_F16 ? 0.008 : r->type.dtype == QN_F64 ? 1e-9 : 5e-5;
  return 0;
}

static void check(const record *r) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("random", &g));
  qn_val key = qn_graph_param(g, qn_type_of(QN_U32, 1, 2), "key");
  qn_val y = build(r, key, g);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  tensor in = {*qn_val_type(key), (void *)(uintptr_t)r->key}, got, want;
  results_make(g, &got);
  results_make(g, &want);
  cr_assert(qn_type_equal(&got.t, &r->type), "%s: %s", r->id, qn_type_str(&got.t));
  QN_EXPECT_OK(run(g, &in, &got));
  size_t size = qn_dtype_size(r->type.dtype);
  for (int64_t i = 0; i < qn_type_elements(&r->type); i++) {
    memcpy((char *)want.data + (size_t)i * size, &r->want[i], size);
    double x = tensor_get(&got, i), y0 = tensor_get(&want, i), tol = tolerance(r);
    bool same = memcmp((char *)got.data + (size_t)i * size, &r->want[i], size) == 0;
    cr_expect(same || (tol > 0 && fabs(x - y0) <= tol * fabs(y0) + tol / 10), "%s: element %d is %.9g, expected %.9g",
              r->id, (int)i, x, y0);
  }
  tensor_free(&got);
  tensor_free(&want);
  qn_graph_release(g);
}

Test(random, as_recorded) {
  for (size_t i = 0; i < sizeof records / sizeof *records; i++)
    check(&records[i]);
}

/* The known answers that the authors of the generator published. */
Test(random, threefry_known_answers) {
  static const uint32_t cases[3][6] = {
      {0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
      {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0},
  };
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("threefry", &g));
  qn_val v[4], out[2];
  for (int i = 0; i < 4; i++)
    v[i] = qn_graph_param(g, qn_type_scalar(QN_U32), NULL);
  qn_threefry2x32(v[0], v[1], v[2], v[3], &out[0], &out[1]);
  QN_ASSERT_OK(qn_graph_seal(g, out, 2));
  for (int k = 0; k < 3; k++) {
    uint32_t a = 0, b = 0;
    const void *in[4] = {&cases[k][0], &cases[k][1], &cases[k][2], &cases[k][3]};
    void *res[2] = {&a, &b};
    QN_EXPECT_OK(qn_graph_eval_ref(g, in, res));
    cr_expect(a == cases[k][4] && b == cases[k][5], "case %d: %08x %08x", k, a, b);
  }
  qn_graph_release(g);
}

Test(random, key_is_high_and_low_word) {
  qn_graph *g;
  uint32_t words[2];
  void *out[1] = {words};
  QN_ASSERT_OK(qn_graph_create("key", &g));
  qn_val key = qn_key(g, UINT64_C(0x0123456789abcdef));
  QN_ASSERT_OK(qn_graph_seal(g, &key, 1));
  QN_EXPECT_OK(qn_graph_eval_ref(g, NULL, out));
  cr_expect(words[0] == 0x01234567 && words[1] == 0x89abcdef);
  qn_graph_release(g);
}

/* Keys are values: a batch of them draws what each would alone. */
Test(random, vmap_over_keys) {
  qn_graph *f, *batched;
  QN_ASSERT_OK(qn_graph_create("draw", &f));
  qn_val key = qn_graph_param(f, qn_type_of(QN_U32, 1, 2), "key");
  qn_val results[2] = {qn_random_normal(key, qn_type_of(QN_F32, 2, 2, 3)),
                       qn_key_fold_in(key, qn_scalar(f, QN_U32, 9))};
  QN_ASSERT_OK(qn_graph_seal(f, results, 2));
  const int axes[1] = {0};
  QN_ASSERT_OK(qn_vmap_graph(f, 3, axes, &batched));
  const uint32_t keys[3][2] = {{0, 1}, {7, 8}, {0xffffffff, 5}};
  float all[3][6], one[6];
  uint32_t folds[3][2], fold[2];
  const void *in[1] = {keys};
  void *out[2] = {all, folds}, *lane_out[2] = {one, fold};
  QN_EXPECT_OK(qn_graph_eval_ref(batched, in, out));
  for (int i = 0; i < 3; i++) {
    in[0] = keys[i];
    QN_EXPECT_OK(qn_graph_eval_ref(f, in, lane_out));
    cr_expect(memcmp(one, all[i], sizeof one) == 0 && memcmp(fold, folds[i], sizeof fold) == 0, "lane %d", i);
  }
  qn_graph_release(f);
  qn_graph_release(batched);
}

static void expect_refusal(int which, const char *part) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("refused", &g));
  qn_val key = qn_graph_param(g, qn_type_of(QN_U32, 1, 2), NULL),
         odd = qn_graph_param(g, qn_type_of(QN_U32, 1, 3), NULL);
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL), y = QN_NULL_VAL, z;
  if (which == 0)
    y = qn_random_bits(odd, qn_type_of(QN_U32, 1, 4));
  else if (which == 1)
    y = qn_random_bits(key, qn_type_of(QN_I32, 1, 4));
  else if (which == 2)
    y = qn_random_uniform(key, qn_type_of(QN_I32, 1, 4), 0, 1);
  else if (which == 3)
    y = qn_key_fold_in(key, x);
  else if (which == 4)
    y = qn_key_split(key, -1);
  else if (which == 5)
    qn_threefry2x32(x, x, x, x, &y, &z);
  else
    y = qn_random_bernoulli(key, 0.5, QN_MAX_RANK + 1, NULL);
  cr_expect(!qn_val_ok(y));
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, part);
  qn_graph_release(g);
}

Test(random, refusals) {
  expect_refusal(0, "random_bits: key is u32[3], expected u32[2]");
  expect_refusal(1, "random_bits: asked for i32[4], expected unsigned integers");
  expect_refusal(2, "random_uniform: asked for i32[4], expected floats");
  expect_refusal(3, "key_fold_in: data is f32[], expected u32[] or i32[]");
  expect_refusal(4, "key_split: -1 keys");
  expect_refusal(5, "threefry2x32: operand 0 is f32[], expected u32");
  expect_refusal(6, "random_bernoulli: rank 13");
}
