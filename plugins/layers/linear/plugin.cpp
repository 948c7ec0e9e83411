#include "tessera/plugin.hpp"
#include "column_linear.hpp"
#include "row_linear.hpp"
#include "whole_linear.hpp"

TESSERA_PLUGIN(linear, "0.1.0", "Tensor-parallel linear modules") {
  registrar.add<tessera::Module, tessera::ColumnLinear>(
      "column_linear", "linear with output features cut over the tensor group");
  registrar.add<tessera::Module, tessera::RowLinear>(
      "row_linear", "linear with input features cut over the tensor group");
  registrar.add<tessera::Module, tessera::WholeLinear>(
      "whole_linear", "linear that is whole on every rank, applied to its own rows");
}
