; Twenty saves of a painting of five layers, as GIMP stores them: each save changes a part of one layer.
; benches/space.sh xcf runs it in GIMP's batch mode, in the directory that gets 00.xcf to 19.xcf.
(define (two n) (if (< n 10) (string-append "0" (number->string n)) (number->string n)))

(define (save image n)
  (let ((name (string-append (two n) ".xcf")))
    (gimp-xcf-save RUN-NONINTERACTIVE image (car (gimp-image-get-active-layer image)) name name)))

(define (layer-of image width height n)
  (let ((layer (car (gimp-layer-new image width height RGBA-IMAGE
                     (string-append "layer " (number->string n)) 100 LAYER-MODE-NORMAL))))
    (gimp-image-insert-layer image layer 0 0)
    (plug-in-plasma RUN-NONINTERACTIVE image layer (+ 17 n) 2.0)
    (plug-in-rgb-noise RUN-NONINTERACTIVE image layer FALSE FALSE 0.04 0.04 0.04 0)
    layer))

(define (edit image layer n width height)
  (let ((x (modulo (* n 397) (- width 500))) (y (modulo (* n 251) (- height 400))))
    (gimp-image-select-ellipse image CHANNEL-OP-REPLACE x y 500 400)
    (cond ((= (modulo n 3) 0) (gimp-drawable-brightness-contrast layer 0.1 0.05))
          ((= (modulo n 3) 1) (plug-in-gauss RUN-NONINTERACTIVE image layer 9 9 0))
          (else (gimp-context-set-foreground (list (modulo (* n 40) 255) 90 160))
                (gimp-drawable-edit-fill layer FILL-FOREGROUND)))
    (gimp-selection-none image)))

(define (saves width height)
  (let* ((image (car (gimp-image-new width height RGB)))
         (layers (list (layer-of image width height 0) (layer-of image width height 1)
                       (layer-of image width height 2) (layer-of image width height 3)
                       (layer-of image width height 4))))
    (let loop ((n 0))
      (if (> n 0) (edit image (list-ref layers (modulo n 5)) n width height))
      (save image n)
      (if (< n 19) (loop (+ n 1))))))

(saves 2000 1400)
(gimp-quit 1)
