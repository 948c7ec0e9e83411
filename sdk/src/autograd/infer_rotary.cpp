#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/rotary.hpp"

namespace tessera {

void RotaryArgs::infer(RotaryArgs& args) {
  const Infer check(args);
  check.rank(args.x, 3);
  check.unit_inner(args.x);
  check.type(args.x);
  check.input(args.positions, {args.x.shape[0]});
  check.rank(args.table, 3);
  check.input(args.table, {args.table.shape[0], 2, args.table.shape[2]});
  check.require(args.table.shape[0] > 0, "the table has no positions");
  check.require(2 * args.table.shape[2] <= args.x.shape[2],
                "{} pairs of features turn, and a head has {} features",
                args.table.shape[2],
                args.x.shape[2]);
  check.row_output(args.out, {args.x.shape[0], args.x.shape[1], args.x.shape[2]});
}

}  // namespace tessera
