/* CUDA graphs: the functions of the table (struct rd_device_ops). */
#ifndef RD_CUDA_GRAPH_H
#define RD_CUDA_GRAPH_H

int rd_cuda_graph_begin(int device, void *stream);
int rd_cuda_graph_end(int device, void *stream, void **graph);
int rd_cuda_graph_launch(int device, void *stream, void *graph);
void rd_cuda_graph_destroy(int device, void *graph);

#endif
