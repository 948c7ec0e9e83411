#include "tessera/error.hpp"
#include "vocabulary_trainer.hpp"

namespace tessera {

void require_trainer() {
  fail_config(
      "trainer.type: training needs libsentencepiece_train, which this build is without: install "
      "libsentencepiece-dev (tests/setup.sh names all packages), then configure and build again");
}

TrainedModel train_model(const TrainerOptions&, const std::vector<std::string>&) { return {}; }

}  // namespace tessera
