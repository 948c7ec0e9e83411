#include "tessera/plugin.hpp"

#include "tensorboard.hpp"

TESSERA_PLUGIN(tensorboard, "0.1.0", "Numbers of a run for TensorBoard") {
  registrar.add<tessera::Observer, tessera::TensorBoard>(
      "tensorboard",
      "event files in the folder tensorboard of the run, with Megatron-LM's tags (lm loss, "
      "learning-rate, grad-norm, ...). A resumed run adds a file, which takes back what an earlier "
      "one says of later steps. A new run keeps an earlier one as tensorboard.1.");
}
