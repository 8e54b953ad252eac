"""Row streams: a split's tokens as batches of segments, for training and for evaluation."""

from memjax.data.streams.evaluation import EvaluationSegment, EvaluationStream
from memjax.data.streams.prefetch import prefetched
from memjax.data.streams.training import Batch, TrainingStream
from memjax.data.streams.windows import WindowStream

__all__ = ['Batch', 'EvaluationSegment', 'EvaluationStream', 'TrainingStream', 'WindowStream', 'prefetched']
