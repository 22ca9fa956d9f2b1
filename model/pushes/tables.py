"""RocksDB's table format, for the stores of instances and for the files of a push.

RocksDB reads tables of any format. The same options give the files of a push the same filters,
index and compression as the files that an instance writes itself.
"""

from __future__ import annotations

from rocksdict import BlockBasedOptions, Cache, DataBlockIndexType, DBCompressionType, Options

BLOCK_SIZE = 4096  # bytes
BLOOM_BITS_PER_KEY = 10


def table_options(
    cache: Cache | None = None,
    block_size: int = BLOCK_SIZE,
    bloom_bits_per_key: int = BLOOM_BITS_PER_KEY,
) -> Options:
    """Options for writing tables; keys and values are bytes. `cache`: used for reading tables."""
    table = BlockBasedOptions()
    if cache is not None:
        table.set_block_cache(cache)
    table.set_block_size(block_size)
    table.set_bloom_filter(bloom_bits_per_key, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    return options
