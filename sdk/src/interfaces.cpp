// One home for the vtable and typeinfo of each SDK interface, so that libtessera.so owns them and
// every plugin refers to the same. Interfaces with more code out of line define them next to it.
#include "tessera/base/memory.hpp"
#include "tessera/build.hpp"
#include "tessera/context.hpp"
#include "tessera/converter.hpp"
#include "tessera/data.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/device/device.hpp"
#include "tessera/device/store_route.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/evaluation.hpp"
#include "tessera/graph.hpp"
#include "tessera/layer.hpp"
#include "tessera/model.hpp"
#include "tessera/observer.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/plugin.hpp"
#include "tessera/rotary.hpp"
#include "tessera/schedule.hpp"
#include "tessera/tape.hpp"

namespace tessera {

Registrar::~Registrar() = default;

ComponentInfo::ComponentInfo() = default;
ComponentInfo::ComponentInfo(const ComponentInfo& other) = default;
ComponentInfo::ComponentInfo(ComponentInfo&& other) noexcept = default;
ComponentInfo& ComponentInfo::operator=(const ComponentInfo& other) = default;
ComponentInfo& ComponentInfo::operator=(ComponentInfo&& other) noexcept = default;
ComponentInfo::~ComponentInfo() = default;

BuildContext::~BuildContext() = default;
Layer::~Layer() = default;
Module::~Module() = default;
Model::~Model() = default;
TokenDispatcher::~TokenDispatcher() = default;
Router::~Router() = default;
Rotary::~Rotary() = default;

TextScorer::~TextScorer() = default;
EvaluationTask::~EvaluationTask() = default;
EvaluationResults EvaluationTask::do_evaluate(TextScorer&) const {
  fail("it is of samples, and got texts to score");
}
EvaluationResults EvaluationTask::do_evaluate_samples(const SampleScores&) const {
  fail("it is of texts, and got scores of samples");
}
void EvaluationTask::do_to_average(SampleScores&) const {
  fail("it is of texts, and got scores of samples");
}
StepSink::~StepSink() = default;
void StepSink::rows(Context&, LossTerm, const Tensor&) {}
Gradients::~Gradients() = default;

UpdateRule::~UpdateRule() = default;
void UpdateRule::do_add_sums(Context&, const Shards&, const Tensor&, const Tensor&) const {}
LrSchedule::~LrSchedule() = default;
Optimizer::~Optimizer() = default;

Tokenizer::~Tokenizer() = default;
Dataset::~Dataset() = default;
SetContent Dataset::do_content(SampleSet) const { return {}; }
std::vector<const DataFile*> Dataset::do_files() const { return {}; }
Observer::~Observer() = default;
Converter::~Converter() = default;

Communicator::~Communicator() = default;
GroupBackend::~GroupBackend() = default;
PendingCollective::~PendingCollective() = default;
Store::~Store() = default;
RoutedStore::~RoutedStore() = default;

Pool::~Pool() = default;
MemorySource::~MemorySource() = default;
Graph::~Graph() = default;

GraphPolicy::~GraphPolicy() = default;
PipelineSchedule::~PipelineSchedule() = default;

}  // namespace tessera
