#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/embedding.hpp"

namespace tessera {

void EmbeddingArgs::infer(EmbeddingArgs& args) {
  const Infer check(args);
  check.rank(args.ids, 1);
  check.input(args.ids, {args.ids.shape[0]});
  check.rank(args.table, 2);
  check.dense(args.table);
  check.output(args.out, {args.ids.shape[0], args.table.shape[1]});
}

Effort EmbeddingArgs::effort(const EmbeddingArgs& args) {
  Effort effort;
  return effort.moves(args.ids).moves(args.out).moves(args.out);  // rows are read and written
}

void EmbeddingWeightArgs::infer(EmbeddingWeightArgs& args) {
  const Infer check(args);
  check.rank(args.ids, 1);
  check.input(args.ids, {args.ids.shape[0]});
  check.rank(args.table_grad, 2);
  check.dense(args.table_grad);
  check.type(args.table_grad);
  check.input(args.grad, {args.ids.shape[0], args.table_grad.shape[1]});
}

Effort EmbeddingWeightArgs::effort(const EmbeddingWeightArgs& args) {
  Effort effort;
  return effort.moves(args.ids).moves(args.grad).moves(args.grad);
}

}  // namespace tessera
