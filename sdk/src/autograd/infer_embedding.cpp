#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/embedding.hpp"

namespace tessera {

void EmbeddingArgs::infer(EmbeddingArgs& args) {
  const NamedArg tensors[] = {{"ids", &args.ids}, {"table", &args.table}, {"out", &args.out}};
  const Infer check(kName, tensors);
  check.rank(args.ids, 1);
  check.input(args.ids, {args.ids.shape[0]}, DType::i64);
  check.rank(args.table, 2);
  check.floating(args.table);
  check.dense(args.table);
  check.output(args.out, {args.ids.shape[0], args.table.shape[1]}, args.table.dtype);
}

void EmbeddingWeightArgs::infer(EmbeddingWeightArgs& args) {
  const NamedArg tensors[] = {
      {"ids", &args.ids}, {"grad", &args.grad}, {"table_grad", &args.table_grad}};
  const Infer check(kName, tensors);
  check.rank(args.ids, 1);
  check.input(args.ids, {args.ids.shape[0]}, DType::i64);
  check.rank(args.table_grad, 2);
  check.floating(args.table_grad);
  check.dense(args.table_grad);
  check.input(args.grad, {args.ids.shape[0], args.table_grad.shape[1]}, args.table_grad.dtype);
}

}  // namespace tessera
