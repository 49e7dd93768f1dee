// SPDX-License-Identifier: GPL-2.0
/*
 * A GCC plugin that makes the kernel count its work: every basic block adds the number of its instructions, as the compiler's own inliner
 * estimates them, to strata_cpu_counts[] (strata_cpu.h). One unit is about one simple instruction of the machine.
 *
 * Code that a real machine runs with other instructions (vectors, CRC, AES) is not counted by blocks but by the bytes that it is given, when one
 * of byte_functions[] is entered; so are copies. The count of a kernel is a function of its source and of the compiler.
 */
#include "gcc-common.h"
#include "tree-dfa.h"
#include "strata_cpu_counters.h"

__visible int plugin_is_GPL_compatible;

static struct plugin_info strata_cost_plugin_info = {
	.version = PLUGIN_VERSION,
	.help = "no options\n",
};

#define NOT_COUNTED CPU_COUNTERS

/* A part of a file's path, and what its blocks count as. The first match holds. */
static const struct {
	const char *path;
	enum strata_cpu_counter counter;
	int divisor;	/* the factor by which a real machine is faster */
} files[] = {
	/* the host's side of User-Mode Linux, the modelled disks, and programs of the build */
	{ "arch/", NOT_COUNTED }, { "drivers/block/strata/", NOT_COUNTED }, { "scripts/", NOT_COUNTED },
	{ "kernel/bounds.c", NOT_COUNTED }, { "kernel/sched/rq-offsets.c", NOT_COUNTED },
	/* counted by their bytes */
	{ "lib/string.c", NOT_COUNTED }, { "lib/crc/", NOT_COUNTED }, { "lib/xxhash.c", NOT_COUNTED },
	{ "lib/crypto/", NOT_COUNTED }, { "lib/raid/", NOT_COUNTED }, { "crypto/aes.c", NOT_COUNTED },
	{ "crypto/xts.c", NOT_COUNTED }, { "crypto/ecb.c", NOT_COUNTED }, { "crypto/cbc.c", NOT_COUNTED },
	{ "crypto/lskcipher.c", NOT_COUNTED }, { "zcommon/zfs_fletcher", NOT_COUNTED }, { "icp/algs/", NOT_COUNTED },
	{ "zfs/vdev_raidz_math", CPU_BLOCK, 8 },
	{ "lib/zstd/", CPU_COMPRESSION, 1 }, { "lib/lzo/", CPU_COMPRESSION, 1 }, { "lib/lz4/", CPU_COMPRESSION, 1 },
	{ "lib/zlib_", CPU_COMPRESSION, 1 }, { "module/zstd/", CPU_COMPRESSION, 1 }, { "zfs/lz4", CPU_COMPRESSION, 1 },
	{ "zfs/lzjb.c", CPU_COMPRESSION, 1 },
};

/* Functions that are given bytes: the parameter with their number, from 0; or a constant number. */
static const struct {
	const char *name;
	enum strata_cpu_counter counter;
	int parameter;
	int constant;
} byte_functions[] = {
	{ "crc32_le", CPU_CHECKSUM, 2 }, { "crc32_be", CPU_CHECKSUM, 2 }, { "crc32c", CPU_CHECKSUM, 2 }, { "crc64_be", CPU_CHECKSUM, 2 },
	{ "crc64_nvme", CPU_CHECKSUM, 2 }, { "crc16", CPU_CHECKSUM, 2 }, { "crc_t10dif_update", CPU_CHECKSUM, 2 },
	{ "xxh32", CPU_CHECKSUM, 1 }, { "xxh64", CPU_CHECKSUM, 1 }, { "xxh64_update", CPU_CHECKSUM, 2 },
	{ "fletcher_2_native", CPU_CHECKSUM, 1 }, { "fletcher_4_native", CPU_CHECKSUM, 1 }, { "fletcher_4_byteswap", CPU_CHECKSUM, 1 },
	{ "fletcher_4_incremental_native", CPU_CHECKSUM, 1 }, { "abd_fletcher_4_iter", CPU_CHECKSUM, 1 },
	{ "__sha256_update", CPU_HASH, 2 }, { "__sha512_update", CPU_HASH, 2 }, { "blake2b_update", CPU_HASH, 2 }, { "md5_update", CPU_HASH, 2 },
	{ "SHA2Update", CPU_HASH, 2 }, { "Blake3_Update", CPU_HASH, 2 }, { "Skein_512_Update", CPU_HASH, 2 }, { "EdonRUpdate", CPU_HASH, 2 },
	{ "aes_encrypt", CPU_CIPHER, -1, 16 }, { "aes_decrypt", CPU_CIPHER, -1, 16 },
	{ "aes_encrypt_contiguous_blocks", CPU_CIPHER, 2 }, { "aes_decrypt_contiguous_blocks", CPU_CIPHER, 2 },
	{ "xor_gen", CPU_PARITY, 3 }, { "raid6_gen_syndrome", CPU_PARITY, 1 }, { "raid6_xor_syndrome", CPU_PARITY, 3 },
	{ "raid6_recov_2data", CPU_PARITY, 1 }, { "raid6_recov_datap", CPU_PARITY, 1 },
};

/* Copies by the number of bytes in this argument, from 0. */
static const struct {
	const char *name;
	unsigned int argument;
} copies[] = {
	{ "memcpy", 2 }, { "__memcpy", 2 }, { "memmove", 2 }, { "memset", 2 }, { "__memset", 2 }, { "memcmp", 2 },
	{ "memchr_inv", 2 }, { "raw_copy_to_user", 2 }, { "raw_copy_from_user", 2 }, { "__clear_user", 1 },
};

#define SMALL_COPY_BYTES 256

static enum strata_cpu_counter file_counter;
static int file_divisor;

static void add_before(gimple_stmt_iterator *at, enum strata_cpu_counter counter, tree bytes, long constant)
{
	vec<tree, va_gc> *inputs = NULL, *clobbers = NULL;
	char text[64];
	gasm *statement;

	if (bytes) {
		snprintf(text, sizeof(text), "addq %%0, strata_cpu_counts+%d", 8 * counter);
		vec_safe_push(inputs, build_tree_list(build_tree_list(NULL_TREE, build_string(3, "er")), bytes));
	} else {
		snprintf(text, sizeof(text), "addq $%ld, strata_cpu_counts+%d", constant, 8 * counter);
	}
	vec_safe_push(clobbers, build_tree_list(NULL_TREE, build_string(3, "cc")));
	statement = gimple_build_asm_vec(ggc_strdup(text), inputs, NULL, clobbers, NULL);
	gimple_asm_set_volatile(statement, true);
	gsi_insert_before(at, statement, GSI_SAME_STMT);
}

static tree as_unsigned_long(gimple_stmt_iterator *at, tree value)
{
	tree wide;

	if (useless_type_conversion_p(long_unsigned_type_node, TREE_TYPE(value)))
		return value;
	wide = make_ssa_name(long_unsigned_type_node);
	gsi_insert_before(at, gimple_build_assign(wide, NOP_EXPR, value), GSI_SAME_STMT);
	return wide;
}

/* Counts what a call copies; returns the units of a small copy of known size. */
static int count_copy(gimple_stmt_iterator *at, gimple call)
{
	tree callee = gimple_call_fndecl(call), bytes;
	unsigned int i;

	if (!callee || !DECL_NAME(callee))
		return 0;
	for (i = 0; i < ARRAY_SIZE(copies); i++)
		if (!strcmp(IDENTIFIER_POINTER(DECL_NAME(callee)), copies[i].name))
			break;
	if (i == ARRAY_SIZE(copies) || gimple_call_num_args(call) <= copies[i].argument)
		return 0;
	bytes = gimple_call_arg(call, copies[i].argument);
	if (TREE_CODE(bytes) == INTEGER_CST) {
		if (tree_to_uhwi(bytes) < SMALL_COPY_BYTES)
			return tree_to_uhwi(bytes) / 16;
		add_before(at, CPU_COPY, NULL_TREE, tree_to_uhwi(bytes));
	} else if (INTEGRAL_TYPE_P(TREE_TYPE(bytes))) {
		add_before(at, CPU_COPY, as_unsigned_long(at, bytes), 0);
	}
	return 0;
}

/* At the entry of a function that is given bytes. */
static void count_bytes(void)
{
	gimple_stmt_iterator at = gsi_after_labels(single_succ(ENTRY_BLOCK_PTR_FOR_FN(cfun)));
	const char *name = DECL_NAME_POINTER(current_function_decl);
	unsigned int i;
	int skip;

	for (i = 0; i < ARRAY_SIZE(byte_functions); i++) {
		tree parameter = DECL_ARGUMENTS(current_function_decl);

		if (strcmp(name, byte_functions[i].name))
			continue;
		if (byte_functions[i].constant) {
			add_before(&at, byte_functions[i].counter, NULL_TREE, byte_functions[i].constant);
			return;
		}
		for (skip = byte_functions[i].parameter; skip && parameter; skip--)
			parameter = DECL_CHAIN(parameter);
		gcc_assert(parameter && INTEGRAL_TYPE_P(TREE_TYPE(parameter)));
		parameter = get_or_create_ssa_default_def(cfun, parameter);
		add_before(&at, byte_functions[i].counter, as_unsigned_long(&at, parameter), 0);
		return;
	}
}

static unsigned int strata_cost_execute(void)
{
	basic_block block;

	count_bytes();
	if (file_counter == NOT_COUNTED)
		return 0;
	FOR_EACH_BB_FN(block, cfun) {
		gimple_stmt_iterator at;
		int units = 0;

		for (at = gsi_start_bb(block); !gsi_end_p(at); gsi_next(&at)) {
			gimple statement = gsi_stmt(at);

			if (is_gimple_debug(statement))
				continue;
			units += estimate_num_insns(statement, &eni_time_weights);
			if (is_gimple_call(statement))
				units += count_copy(&at, statement);
		}
		if (!units)
			continue;
		at = gsi_after_labels(block);
		add_before(&at, file_counter, NULL_TREE, (units + file_divisor - 1) / file_divisor);
	}
	return 0;
}

static bool strata_cost_gate(void)
{
	const char *section = DECL_SECTION_NAME(current_function_decl);

	return !section || !(strstr(section, "noinstr") || strstr(section, "init.text"));
}

#define PASS_NAME strata_cost
#define TODO_FLAGS_FINISH (TODO_update_ssa | TODO_verify_il)
#include "gcc-generate-gimple-pass.h"

static void start_unit(void *event, void *data)
{
	unsigned int i;

	file_counter = CPU_BLOCK;
	file_divisor = 1;
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		const char *found = strstr(main_input_filename, files[i].path);

		if (!found || (found != main_input_filename && found[-1] != '/'))
			continue;
		file_counter = files[i].counter;
		file_divisor = files[i].divisor ?: 1;
		return;
	}
}

__visible int plugin_init(struct plugin_name_args *info, struct plugin_gcc_version *version)
{
	PASS_INFO(strata_cost, "optimized", 1, PASS_POS_INSERT_BEFORE);

	if (!plugin_default_version_check(version, &gcc_version)) {
		error(G_("incompatible gcc/plugin versions"));
		return 1;
	}
	register_callback(info->base_name, PLUGIN_INFO, NULL, &strata_cost_plugin_info);
	register_callback(info->base_name, PLUGIN_START_UNIT, start_unit, NULL);
	register_callback(info->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &strata_cost_pass_info);
	return 0;
}
