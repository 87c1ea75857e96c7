// SPDX-License-Identifier: Apache-2.0
#pragma once
// The workloads of benchmarks, which are read from tables in a folder or from files with
// expressions. Free functions; thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/suites.h"

namespace tw::bench {

using Item = tools::SuiteItem;

/// Loads the suite `name` from the file <name>.tsv in the folder. Fails with Usage if the name is
/// unknown; the message lists the known ones.
Result<std::vector<Item>> load_suite(const std::string& folder, const std::string& name);

/// Loads the compute in a .tw file as an item. The item is named like the file.
Result<Item> load_expression(const std::string& path);

/// Returns the items with this batch size and this data type. A batch size other than 1 is appended
/// to an item's name: "r04_n32". Fails with Usage if the batch size is not 1 and an item is not a
/// convolution.
Result<std::vector<Item>> variants(const std::vector<Item>& items, int64_t batch, DType dtype);

/// Returns the items whose names are in `names`, separated by commas, in the order of the suite. An
/// empty text stands for all items. Fails with Usage if the suite lacks one of the names.
Result<std::vector<Item>> select(std::vector<Item> items, std::string_view names);

}  // namespace tw::bench
