#pragma once
#include <ostream>
#include <string>
#include <vector>

#include "invariant_support.hpp"

/// The rows of the invariant table.
namespace tessera::testing {

struct TableRow {
  std::string name;
  Sets sets;
};
inline void PrintTo(const TableRow& row, std::ostream* out) { *out << row.name; }

/// Every layout and every microbatch size of this version, on one pipeline rank.
const std::vector<TableRow>& table_layouts();

/// Every pipeline schedule and placement, for deep_model(): blocks enough for eight stages, the
/// embedding and the head on stages of their own.
const std::vector<TableRow>& pipeline_layouts();
const Sets& deep_model();

}  // namespace tessera::testing
